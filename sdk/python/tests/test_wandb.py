"""The Weights & Biases bridge, with a real server and a real (offline) run."""

import pytest
import torch

import foreshock
import models


def test_signals_and_alerts_reach_the_run(servers, monkeypatch, tmp_path):
    wandb = pytest.importorskip("wandb")
    from foreshock.wandb import Bridge, worst

    monkeypatch.setenv("WANDB_SILENT", "true")
    server = servers.server()
    agent = servers.agent(server.grpc)
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run = wandb.init(mode="offline", dir=str(tmp_path), project="p")
    try:
        with foreshock.watch(model, optimizer, run="bridged", address=agent.address, attention_every_steps=1,
                             spectra_every_steps=1, row_every=1, budget=1.0) as monitor:
            models.train(model, optimizer, 3, monitor)
            with torch.no_grad():
                model.ln_f.bias.fill_(float("nan"))
            models.train(model, optimizer, 2, monitor, first=3)
        servers.await_end(server, "bridged")
        told = []
        monkeypatch.setattr(run, "alert", lambda **alert: told.append(alert))
        bridge = Bridge("bridged", f"http://{server.http}", period_s=3600)
        from harness import until
        until(lambda: bridge.poll() and told, "the alert about the loss that is not a number")
        bridge.close()
        assert "non_finite" in told[0]["title"] and len({str(t) for t in told}) == len(told)
        series = servers.get(server, "/api/v1/runs/bridged/step/last", signal="logit_max")["frame"]["series"]
        assert float(run.summary["foreshock/logit_max"]) == pytest.approx(worst(series)["foreshock/logit_max"], nan_ok=True)
    finally:
        run.finish()


def test_without_an_active_run_it_says_so():
    pytest.importorskip("wandb")
    from foreshock.wandb import Bridge

    with pytest.raises(ValueError, match="no wandb run is active"):
        Bridge("x")
