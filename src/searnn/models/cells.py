"""GRU and LSTM layers that run over a whole sequence with the library's kernel, or one step over many rows.

Both ways read the same weights, those of `nn.GRU` and `nn.LSTM`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Carry = Tensor | None  # the LSTM's second state, None for the GRU


class GruLayer(nn.GRU):
    """One GRU layer: r, z = σ(·), n = tanh(W x + r ∘ U h), h' = (1 - z) ∘ n + z ∘ h."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor
    gates = 3
    has_carry = False

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, batch_first=True)

    def sequence(
        self, inputs: Float[Tensor, "B T E"], hidden: Float[Tensor, "B D"], carry: Carry
    ) -> Float[Tensor, "B T D"]:
        """The hidden state after each input."""
        outputs, _ = self(inputs, hidden.unsqueeze(0).contiguous())
        return outputs  # type: ignore[no-any-return]

    def recur(self, hidden: Float[Tensor, "B R D"]) -> Float[Tensor, "B R G"]:
        """The state's own gates (U h + b)."""
        return functional.linear(hidden, self.weight_hh_l0, self.bias_hh_l0)

    def advance(
        self,
        inputs: Float[Tensor, "B R G"],
        own: Float[Tensor, "B R G"],
        hidden: Float[Tensor, "B R D"],
        carry: Carry,
    ) -> tuple[Float[Tensor, "B R D"], Carry]:
        """One step of every row, from its input gates (W x + b) and its own."""
        width = self.hidden_size
        both = (inputs[..., : 2 * width] + own[..., : 2 * width]).sigmoid_()
        reset, update = both.chunk(2, dim=-1)
        new = torch.addcmul(inputs[..., 2 * width :], reset, own[..., 2 * width :]).tanh_()
        return torch.lerp(new, hidden, update), None

    def carries(
        self, inputs: Float[Tensor, "B T E"], outputs: Float[Tensor, "B T D"], hidden: Tensor, carry: Carry
    ) -> Carry:
        """A GRU has no second state."""
        return None


class LstmLayer(nn.LSTM):
    """One LSTM layer: c' = f ∘ c + i ∘ g, h' = o ∘ tanh(c')."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor
    gates = 4
    has_carry = True

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, batch_first=True)

    def sequence(
        self, inputs: Float[Tensor, "B T E"], hidden: Float[Tensor, "B D"], carry: Carry
    ) -> Float[Tensor, "B T D"]:
        """The hidden state after each input."""
        assert carry is not None
        outputs, _ = self(inputs, (hidden.unsqueeze(0).contiguous(), carry.unsqueeze(0).contiguous()))
        return outputs  # type: ignore[no-any-return]

    def recur(self, hidden: Float[Tensor, "B R D"]) -> Float[Tensor, "B R G"]:
        """The state's own gates (U h + b)."""
        return functional.linear(hidden, self.weight_hh_l0, self.bias_hh_l0)

    def advance(
        self,
        inputs: Float[Tensor, "B R G"],
        own: Float[Tensor, "B R G"],
        hidden: Float[Tensor, "B R D"],
        carry: Carry,
    ) -> tuple[Float[Tensor, "B R D"], Carry]:
        """One step of every row, from its input gates (W x + b) and its own."""
        assert carry is not None
        enter, forget, new, leave = (inputs + own).chunk(4, dim=-1)
        carry = forget.sigmoid() * carry + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * carry.tanh(), carry

    def carries(
        self, inputs: Float[Tensor, "B T E"], outputs: Float[Tensor, "B T D"], hidden: Tensor, carry: Carry
    ) -> Carry:
        """The second state after each input, which the library's kernel does not return: its gates, then a scan."""
        assert carry is not None
        before = torch.cat([hidden.unsqueeze(1), outputs[:, :-1]], dim=1)
        gates = functional.linear(inputs, self.weight_ih_l0, self.bias_ih_l0)
        gates = gates + self.recur(before)
        enter, forget, new, _ = gates.chunk(4, dim=-1)
        entering, kept = enter.sigmoid() * new.tanh(), forget.sigmoid()
        states = []
        for cell in range(inputs.shape[1]):
            carry = kept[:, cell] * carry + entering[:, cell]
            states.append(carry)
        return torch.stack(states, dim=1)


Layer = GruLayer | LstmLayer
LAYERS: dict[str, type[GruLayer] | type[LstmLayer]] = {"gru": GruLayer, "lstm": LstmLayer}
