"""The Weights & Biases bridge, with a real server and a real (offline) run."""

import http.server
import socket
import threading
import types
import urllib.error

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
        run.log({"end": 1.0})  # signals wait for the trainer's next row
        assert "non_finite" in told[0]["title"] and len({str(t) for t in told}) == len(told)
        series = servers.get(server, "/api/v1/runs/bridged/step/last", signal="logit_max")["frame"]["series"]
        assert float(run.summary["foreshock/logit_max"]) == pytest.approx(worst(series)["foreshock/logit_max"], nan_ok=True)
    finally:
        run.finish()


NAN = {"attention_every_steps": 1, "spectra_every_steps": 1, "row_every": 1, "budget": 1.0}


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """An offline wandb run, and the alerts that it is told."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="p")
    told = []
    monkeypatch.setattr(run, "alert", lambda **alert: told.append(alert))
    yield types.SimpleNamespace(run=run, told=told)
    run.finish()


def hf_trainer(tmp_path, callback, steps=4):
    """A Transformers Trainer whose loss is no number in its last two steps."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=16, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
        bos_token_id=0, eos_token_id=1))

    class Breaks(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == steps - 2:
                with torch.no_grad():
                    model.transformer.ln_f.bias.fill_(float("nan"))

    rows = [{"input_ids": r, "labels": r} for r in torch.randint(50, (16, 16))]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), max_steps=steps, per_device_train_batch_size=2, report_to=[],
                                               use_cpu=True, disable_tqdm=True, save_strategy="no")
    return transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[callback, Breaks()])


@pytest.mark.parametrize("server_by", ["argument", "environment"])
def test_a_transformers_trainer_bridges_by_itself(servers, opened, monkeypatch, tmp_path, server_by):
    from foreshock.transformers import ForeshockCallback

    server = servers.server()
    agent = servers.agent(server.grpc)
    monkeypatch.setenv("FORESHOCK_HTTP", f"http://{server.http}" if server_by == "environment" else "http://127.0.0.1:1")
    given = {} if server_by == "environment" else {"wandb_server": f"http://{server.http}"}
    callback = ForeshockCallback(run="by-itself", address=agent.address, **given, **NAN)
    last_round = closes_at_the_end(servers, server, "by-itself", monkeypatch)
    hf_trainer(tmp_path, callback).train()
    assert last_round and any("non_finite" in alert["title"] for alert in opened.told), opened.told
    assert len({str(alert) for alert in opened.told}) == len(opened.told)


def test_a_lightning_trainer_bridges_by_itself(servers, opened, monkeypatch, tmp_path):
    lightning = pytest.importorskip("lightning")
    from foreshock.lightning import ForeshockCallback

    server = servers.server()
    agent = servers.agent(server.grpc)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = models.nanogpt()

        def training_step(self, batch, index):
            if self.global_step == 2:
                with torch.no_grad():
                    self.net.ln_f.bias.fill_(float("nan"))
            return self.net(*batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    last_round = closes_at_the_end(servers, server, "pl", monkeypatch)
    data = torch.utils.data.TensorDataset(*models.batch(0, size=12))
    lightning.Trainer(max_steps=4, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                      enable_checkpointing=False, default_root_dir=str(tmp_path), max_epochs=-1,
                      callbacks=[ForeshockCallback(run="pl", address=agent.address, wandb_server=f"http://{server.http}", **NAN)]
                      ).fit(Module(), torch.utils.data.DataLoader(data, batch_size=2))
    assert last_round and any("non_finite" in alert["title"] for alert in opened.told), opened.told


def closes_at_the_end(servers, server, run, monkeypatch):
    """Bridges close when the server has the run's end: their last round then has what there is. Returns the bridges that did."""
    from foreshock import wandb as bridges

    closed, close = [], bridges.Bridge.close

    def wait_and_close(bridge):
        servers.await_end(server, run)
        close(bridge)
        closed.append(bridge)

    monkeypatch.setattr(bridges.Bridge, "close", wait_and_close)
    return closed


def test_where_there_is_nothing_to_bridge(opened, capfd, monkeypatch, tmp_path):
    """A file has no server; a server that never answers is named once; False is no bridge; no wandb run, none either."""
    from foreshock.transformers import ForeshockCallback
    from foreshock.wandb import Follower

    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with foreshock.watch(model, optimizer, run="file", address=f"file:{tmp_path}/run.jsonl") as monitor:
        follower = Follower("http://127.0.0.1:1")
        follower.look(monitor)
        assert follower.bridge is None
        monkeypatch.setattr(type(monitor), "has_server", True)
        follower = Follower(False)
        follower.look(monitor)
        assert follower.bridge is None
        follower = Follower("http://127.0.0.1:1")
        follower.look(monitor)
        assert follower.bridge is not None
        follower.close()
        said = capfd.readouterr().err
        assert said.count("http://127.0.0.1:1 did not answer") == 1 and "FORESHOCK_HTTP" in said
        import wandb

        monkeypatch.setattr(wandb, "run", None)
        follower = Follower("http://127.0.0.1:1")
        follower.look(monitor)
        assert follower.bridge is None and not follower.off, "a run may be opened later"
    assert ForeshockCallback(wandb_server=False).options == {}


class Listener(http.server.BaseHTTPRequestHandler):
    """Notes the tokens it is given; answers /away by pointing to another host's name for itself."""

    def do_GET(self):
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(302 if self.path.startswith("/away") else 404)
        self.send_header("Location", f"http://localhost:{self.server.server_port}/taken")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.tokens = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_token_goes_to_a_server_that_was_named_alone(opened, listener, monkeypatch, tmp_path):
    from foreshock import _http
    from foreshock import wandb as bridges

    here = f"http://127.0.0.1:{listener.server_port}"
    monkeypatch.setattr(bridges, "SERVER", here)
    monkeypatch.setenv("FORESHOCK_TOKEN", "secret")
    monkeypatch.delenv("FORESHOCK_HTTP", raising=False)
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with foreshock.watch(model, optimizer, run="file", address=f"file:{tmp_path}/run.jsonl") as monitor:
        monkeypatch.setattr(type(monitor), "has_server", True)
        for server, sent in ((None, None), (here, "Bearer secret")):
            follower = bridges.Follower(server)
            follower.look(monitor)
            follower.bridge.poll()
            follower.close()
            assert set(listener.tokens) == {sent}
            listener.tokens.clear()
    with pytest.raises(urllib.error.HTTPError):
        _http.get(here + "/away", "secret")
    assert listener.tokens == ["Bearer secret"], "a redirect is not followed"
    for server in ("http://example.com:7070", "http://10.0.0.1:7070"):
        with pytest.raises(ValueError, match="https:// or on loopback"):
            bridges.Bridge("run", server, token="secret")
    bridges.Bridge("run", "http://127.0.0.1:1", token="secret").close()


def test_rows_of_the_trainer_are_not_dropped(servers, opened, monkeypatch):
    """wandb drops rows whose step= lies behind its own step: a bridge may not move that."""
    from foreshock.wandb import Bridge

    server = servers.server()
    agent = servers.agent(server.grpc)
    model = models.nanogpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    bridge = Bridge("steps", f"http://{server.http}", period_s=3600)
    with foreshock.watch(model, optimizer, run="steps", address=agent.address, **NAN) as monitor:
        for step in range(3):
            opened.run.log({"loss": 1.0 + step}, step=step)
            models.train(model, optimizer, 1, monitor, first=step)
            from harness import until
            until(lambda: servers.get(server, "/api/v1/runs").get("runs") and bridge.poll() and bridge._step == step, "the step")
            opened.run.log({"later": 10.0 + step}, step=step)
    bridge.close()
    opened.run.log({"end": 1.0}, step=3)
    assert opened.run.step == 3 and opened.run.summary["later"] == 12.0 and opened.run.summary["foreshock/step"] == 2


def test_a_server_that_keeps_silent_holds_no_training_up(opened, capfd):
    from foreshock.wandb import Bridge

    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the question; nobody answers
        bridge = Bridge("run", f"http://127.0.0.1:{silent.getsockname()[1]}", period_s=3600)
        assert bridge.close(timeout_s=0.2) is False
        assert bridge._thread.is_alive(), "it did not wait for the answer"
        assert "did not answer within 0.2 s: no signals in the wandb run" in capfd.readouterr().err
        before = dict(opened.run.summary)
        client, _ = silent.accept()
        with client:  # what comes later is too late: the run may be finished
            client.recv(4096)
            body = b'{"alerts": [{"id": "a", "rule": "r", "state": "firing"}], "frame": {"step": 3, "series": []}}'
            client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        client, _ = silent.accept()
        with client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    bridge._thread.join()
    assert opened.told == [] and dict(opened.run.summary) == before


def test_a_wandb_that_hangs_holds_no_training_up(opened, capfd, monkeypatch):
    from foreshock.wandb import Bridge

    body = b'{"alerts": [{"id": "a", "rule": "r", "state": "firing"}, {"id": "b", "rule": "r", "state": "firing"}], "frame": {"step": 3, "series": []}}'
    free, asked = threading.Event(), threading.Event()
    monkeypatch.setattr(opened.run, "alert", lambda **_: (opened.told.append(1), asked.set(), free.wait(60)))

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bridge = Bridge("run", f"http://127.0.0.1:{server.server_port}", period_s=0.05)
        assert asked.wait(30)
        assert bridge.close(timeout_s=0.2) is False
        assert "took nothing more within 0.2 s" in capfd.readouterr().err
        free.set()
        bridge._thread.join()
        server.shutdown()
    assert opened.told == [1], "nothing goes to wandb afterwards"


def test_without_an_active_run_it_says_so():
    pytest.importorskip("wandb")
    from foreshock.wandb import Bridge

    with pytest.raises(ValueError, match="no wandb run is active"):
        Bridge("x")
