"""Lightning: Trainer(callbacks=[foreshock.lightning.ForeshockCallback()]). Works with lightning and pytorch_lightning."""

from __future__ import annotations

import torch

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from . import _abi, guard as make_guard, watch
from .wandb import Follower


class ForeshockCallback(Callback):
    """Watches the LightningModule. Options are those of foreshock.watch(); `guard`: a mode of foreshock.guard(), or None.

    Loss is what training_step returns. The guard's state is kept in Lightning's checkpoints. The action `stop` sets
    trainer.should_stop. While a wandb run is open, alerts and signals go there, too (foreshock.wandb.Follower; `wandb_server`: the server's
    HTTP address, False: not).
    """

    def __init__(self, guard=None, guard_options=None, wandb_server=None, **options):
        super().__init__()
        self._wandb = Follower(wandb_server)
        self.options, self.mode, self.guard_options = options, guard, guard_options or {}
        self.monitor = self.guard = self._guard_state = None
        self._loss, self._step = None, 0
        self._unwrap = lambda: None  # once checkpoints are told: takes that off the trainer

    def on_train_start(self, trainer, pl_module):
        self._step = trainer.global_step
        self.monitor = watch(pl_module, trainer.optimizers,
                             **{"framework": "lightning", "step": trainer.global_step, **self.options})
        if self.mode:
            self.guard = make_guard(pl_module, self.mode, **self.guard_options)
            if self._guard_state is not None:
                self.guard.load_state_dict(self._guard_state)
        if trainer.global_step:
            self.monitor.event(_abi.EVENT_RESUME, trainer.global_step)
        self._tell_checkpoints(trainer)
        self._wandb.look(self.monitor)

    def _tell_checkpoints(self, trainer):
        """Lightning's hook for checkpoints does not know their path: the call that writes them does."""
        save = trainer.save_checkpoint

        def save_and_tell(filepath, *args, **kwargs):
            save(filepath, *args, **kwargs)
            if self.monitor is not None:
                self.monitor.checkpoint(filepath, trainer.global_step)

        trainer.save_checkpoint = save_and_tell
        self._unwrap = lambda: trainer.__dict__.pop("save_checkpoint", None)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor):  # already divided by accumulate_grad_batches
            self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()
        if trainer.global_step == self._step:
            return  # accumulating
        self._step = trainer.global_step
        loss, self._loss = self._loss, None
        self.monitor.step(loss=loss, step=trainer.global_step - 1)
        self._wandb.look(self.monitor)
        if self.monitor.should_stop:
            trainer.should_stop = True

    def on_validation_start(self, trainer, pl_module):
        if self.monitor is not None:
            self.monitor.event(_abi.EVENT_EVAL, trainer.global_step)

    def state_dict(self):
        return {} if self.guard is None else {"guard": self.guard.state_dict()}

    def load_state_dict(self, state_dict):
        self._guard_state = state_dict.get("guard")

    def on_exception(self, trainer, pl_module, exception):
        self._close(_abi.FAILED)

    def on_train_end(self, trainer, pl_module):
        self._close(_abi.STOPPED if self.monitor is not None and self.monitor.should_stop else _abi.FINISHED)

    def _close(self, end):
        if self.monitor is not None:
            self._unwrap()
            self.monitor.close(end)
            self.monitor = None
            self._wandb.close()
