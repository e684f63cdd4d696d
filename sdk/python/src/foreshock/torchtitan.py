"""torchtitan: its logger, which watches as well. In Trainer.train(), behind self.checkpointer.load(...):

    self.metrics_processor.logger = foreshock.torchtitan.ForeshockLogger(self)

Needs nothing of torchtitan but the members of its Trainer: model_parts, optimizers, step, parallel_dims, metrics_processor.
"""

import sys

from . import _abi, watch
from .wandb import Follower

LOSS, NORM, VALIDATION = "loss_metrics/global_avg_loss", "grad_norm", "validation_metrics/loss"


class ForeshockLogger:
    """In the place of a BaseLogger: gives on what it is told and watches the trainer's model. Options are those of foreshock.watch().

    Every step is counted, by its optimizer. Loss (mean over all ranks, nat) and gradient norm are those that torchtitan logs: of steps that
    `metrics.log_freq` picks. With pipeline parallelism each rank watches its first part, and the placeholder that ranks without the last stage
    log is not told. Validations are events. `wandb_server`: as the callbacks have it (foreshock.wandb.Follower). close() inside of an
    `except` block says that the training failed.
    """

    def __init__(self, trainer, wandb_server=None, **options):
        self.inner = trainer.metrics_processor.logger
        self._knows_loss = not trainer.parallel_dims.pp_enabled or trainer.pp_has_last_stage
        self.monitor = watch(trainer.model_parts[0], list(trainer.optimizers), **{"framework": "torchtitan", "step": trainer.step + 1, **options})
        if trainer.step:
            self.monitor.event(_abi.EVENT_RESUME, trainer.step)
        self._wandb = Follower(wandb_server)
        self._wandb.look(self.monitor)

    def log(self, metrics, step):
        """torchtitan's: {name: number} of a step that it logs, or of a validation."""
        self.inner.log(metrics, step)
        if LOSS in metrics:
            self.monitor.step(loss=metrics[LOSS] if self._knows_loss else None, grad_norm=metrics.get(NORM), step=step)
        elif VALIDATION in metrics:
            self.monitor.event(_abi.EVENT_EVAL, step)
        self._wandb.look(self.monitor)

    def close(self):
        """torchtitan's, at the end of training and when an exception left it."""
        self.monitor.close(_abi.FINISHED if sys.exc_info()[0] is None else _abi.FAILED)
        self._wandb.close()
        self.inner.close()
