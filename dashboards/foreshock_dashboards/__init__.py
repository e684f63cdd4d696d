"""Grafana dashboards of Foreshock, generated from the signal catalogue."""
