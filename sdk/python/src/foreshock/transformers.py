"""Hugging Face Transformers: Trainer(..., callbacks=[foreshock.transformers.ForeshockCallback()])."""

from __future__ import annotations

import functools
import pathlib
import weakref

import torch
from transformers import Trainer, TrainerCallback

from . import _abi, guard as make_guard, watch
from .wandb import Follower
from .watch import inner_model


GUARD_FILE = "foreshock_guard.bin"  # in each checkpoint's folder


class ForeshockCallback(TrainerCallback):
    """Watches what the Trainer trains. Options are those of foreshock.watch(); `guard`: a mode of foreshock.guard(), or None.

    Loss is what the model returns, every step, whatever `logging_steps` is. Checkpoints, evaluations and the end are told: an exception
    that leaves Trainer.train() is a failure, whoever catches it. The guard's state is kept in each checkpoint (foreshock_guard.bin). The actions `checkpoint` and `stop` become
    the Trainer's own control flags. While a wandb run is open, alerts and signals go there, too (foreshock.wandb.Follower; `wandb_server`: the
    server's HTTP address, False: not).
    """

    def __init__(self, guard=None, guard_options=None, wandb_server=None, **options):
        self.options, self.mode, self.guard_options = options, guard, guard_options or {}
        self._wandb = Follower(wandb_server)
        self.monitor = self.guard = None
        self._losses, self._hook, self._save = [], None, False

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        options = {"framework": "transformers Trainer", "step": state.global_step, **self.options}
        if "run" not in options and getattr(args, "run_name", None):
            options["run"] = str(args.run_name)[:200]
        self.monitor = watch(model, optimizer, **options)
        if self.mode:
            self.guard = make_guard(model, self.mode, on_checkpoint=self._ask_to_save, **self.guard_options)
            self._restore_guard(args, state.global_step)
        me = weakref.ref(self)
        self._hook = inner_model(model).register_forward_hook(
            lambda m, a, k, out: me() and me()._keep_loss(m, k, out), with_kwargs=True)
        if state.global_step:
            self.monitor.event(_abi.EVENT_RESUME, state.global_step)
        self._wandb.look(self.monitor)

    def _restore_guard(self, args, step):
        """The Trainer does not say which folder it resumes from: the one of its step, or the one named in its arguments."""
        folders = [f"{args.output_dir}/checkpoint-{step}", args.resume_from_checkpoint]
        for folder in folders if step else []:
            path = pathlib.Path(folder, GUARD_FILE) if isinstance(folder, str) else None
            if path is not None and path.is_file():
                self.guard.load_state_dict({"version": 1, "state": path.read_bytes()})
                return

    def _ask_to_save(self):
        self._save = True

    def _keep_loss(self, model, kwargs, out):
        if not model.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        loss = getattr(out, "loss", None)
        if loss is None and isinstance(out, dict):
            loss = out.get("loss")
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            # The Trainer gives models the tokens of the whole step: micro-batches' losses then add up to its mean.
            self._losses.append((loss.detach(), kwargs.get("num_items_in_batch") is not None))

    def _loss(self):
        losses, self._losses = self._losses, []
        if not losses:
            return None
        total = losses[0][0]
        for loss, _ in losses[1:]:
            total = total + loss  # on its device: nobody waits for it
        return total if losses[0][1] else total / len(losses)

    def on_step_end(self, args, state, control, **kwargs):
        if self.monitor is None:
            return
        self.monitor.step(loss=self._loss(), step=state.global_step - 1)
        self._wandb.look(self.monitor)
        if self._save:
            self._save, control.should_save = False, True
        if self.monitor.should_stop:
            control.should_training_stop = True

    def on_save(self, args, state, control, **kwargs):
        if self.monitor is None:
            return
        folder = pathlib.Path(args.output_dir, f"checkpoint-{state.global_step}")
        if self.guard is not None and state.is_world_process_zero and folder.is_dir():
            (folder / GUARD_FILE).write_bytes(self.guard.state_dict()["state"])
        self.monitor.checkpoint(folder, state.global_step)

    def on_evaluate(self, args, state, control, **kwargs):
        if self.monitor is not None:
            self.monitor.event(_abi.EVENT_EVAL, state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        if self.monitor is not None:
            self._close(_abi.STOPPED if self.monitor.should_stop else _abi.FINISHED)

    def failed(self):
        """An exception left the training."""
        if self.monitor is not None:
            self._close(_abi.FAILED)

    def _close(self, end):
        if self._hook is not None:
            self._hook.remove()
        self.monitor.close(end)
        self.monitor = None
        self._wandb.close()


def _tell_failures():
    """Trainer has no callback for an exception: its train() is wrapped once."""
    original = Trainer.train
    if hasattr(original, "foreshock_original"):
        return

    @functools.wraps(original)
    def train(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            for callback in self.callback_handler.callbacks:
                if isinstance(callback, ForeshockCallback):
                    callback.failed()
            raise

    train.foreshock_original = original
    Trainer.train = train


_tell_failures()
