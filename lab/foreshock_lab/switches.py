"""Switches by layer and copy: known on the host, so that nobody waits for a device to see them."""

import torch


class Switches:
    def __init__(self, layers, copies, device):
        self.on, self._device, self._rows = torch.zeros(layers, copies, dtype=torch.bool), device, [None] * layers

    def turn_on(self, where):
        """where: bool [layers, copies] in host memory."""
        if bool((where & ~self.on).any()):
            self.on |= where
            self._rows = [row.nonzero().flatten().to(self._device) if bool(row.any()) else None for row in self.on]

    def rows(self, layer):
        """Indices of the copies that are on in this layer, on the device; None when none is."""
        return self._rows[layer]
