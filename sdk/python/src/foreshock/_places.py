"""Where watched parameters lie in memory. Optimizers and EMA swaps may give a parameter other memory (`p.data = ...`)."""

from torch.nn import Parameter


class _Place:
    """One parameter, which may hold the heads of several projections and layers."""

    __slots__ = ("owner", "name", "projection", "pointer", "layers")

    def __init__(self, projection):
        self.owner, self.name, self.projection = projection.owner, projection.name, projection
        self.layers, self.pointer = [], 0
        self.pointer = self.look()

    def look(self):
        """The long way, for a DTensor or a view; 0 when it is gone."""
        found = self.projection.parameter()
        return 0 if found is None else found.data_ptr()


class Places:
    """Asked twice a step, so each parameter is looked at once and nothing else is done."""

    def __init__(self):
        self._places = {}

    def add(self, layer):
        for projection in (layer.wq, layer.wk):
            if projection is None:
                continue
            key = id(projection.owner()), projection.name
            place = self._places.get(key) or self._places.setdefault(key, _Place(projection))
            if all(layer is not x for x in place.layers):
                place.layers.append(layer)

    def moved(self):
        """Layers some of whose weights lie elsewhere than when this was last asked; () mostly."""
        layers = ()
        for place in self._places.values():
            owner = place.owner()
            found = None if owner is None else owner._parameters.get(place.name)
            now = found.data_ptr() if type(found) is Parameter else place.look()
            if now != place.pointer:
                place.pointer = now
                layers = (*layers, *(x for x in place.layers if all(x is not y for y in layers)))
        return layers
