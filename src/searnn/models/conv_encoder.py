"""The convolutional encoder of Ranzato et al. (2016), after Rush et al. (2015): no recurrence, only local averages."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from searnn.models.encoder import PositionedSource, real_positions
from searnn.types import Inputs, SearnnError


class ConvEncoder(nn.Module):
    """Each source position is the average of the embeddings in a window around it, their positions added.

    Deviation: Ranzato et al. learn their position embeddings, up to a longest source; these are sinusoids, for any
    length. They compare by dot products; here the decoder's additive attention does, over the averages alone. At the
    ends the average is over the positions that exist.
    """

    def __init__(
        self, *, features: int | None, source_size: int | None, width: int, window: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        if window < 1 or window % 2 == 0:
            raise SearnnError(f"window is {window}, it must be an odd number of positions, centred on one")
        self.source = PositionedSource(features=features, source_size=source_size, width=width)
        self.dropout = nn.Dropout(dropout)
        self.width, self.window, self.layers = width, window, layers

    def forward(self, inputs: Inputs) -> tuple[Float[Tensor, "B S D"], list[Float[Tensor, "B D"]]]:
        """What is known at each source position, and its mean over the source once for every layer of the decoder."""
        values = self.dropout(self.source(inputs.values))
        mask = real_positions(inputs.lengths, values.shape[1])
        values = window_means(values, mask, self.window) * mask.unsqueeze(-1)
        mean = values.sum(1) / inputs.lengths.clamp(min=1).unsqueeze(1)
        return values, [mean] * self.layers


def window_means(values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], window: int) -> Float[Tensor, "B S D"]:
    """The mean over the real positions among the `window` centred at each; zero where there are none."""
    real = mask.unsqueeze(1).to(values.dtype)
    both = (values.transpose(1, 2) * real, real)
    sums, counts = (functional.avg_pool1d(part, window, stride=1, padding=window // 2) * window for part in both)
    return (sums / counts.clamp(min=1)).transpose(1, 2)
