"""Asking a server's JSON API with a bearer token: over https, or on loopback, and of the server that was named alone."""

import ipaddress
import urllib.parse
import urllib.request


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would take the token along to wherever an answer points."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def _is_loopback(host):
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(server, token):
    """ValueError where `token` (None: fine) would travel unencrypted to another machine."""
    at = urllib.parse.urlsplit(server)
    if token and at.scheme != "https" and not _is_loopback(at.hostname or ""):
        raise ValueError(f"server: {server}: a token is sent over https:// or on loopback alone")


def get(url, token=None, timeout=120):
    """The open answer; urllib.error.HTTPError for redirects too, OSError where nobody answers."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return _opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
