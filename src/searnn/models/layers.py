"""GRU and LSTM layers that run over a whole sequence with the library's kernel, or one step over many rows.

Both ways read the same weights, those of `nn.GRU` and `nn.LSTM`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from searnn.devices import reads_are_free

Carry = Tensor | None  # the LSTM's second state, None for the GRU
Gates = tuple[Tensor, ...]  # what a layer's nonlinearities are applied to, in the parts it keeps them in
ALL = slice(None)


class GruLayer(nn.GRU):
    """One GRU layer: r, z = σ(·), n = tanh(W x + r ∘ U h), h' = (1 - z) ∘ n + z ∘ h.

    Its gates come in two parts: those of r and z, and that of n, which the step treats differently.
    """

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor
    has_carry = False

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, batch_first=True)

    def sequence(
        self, inputs: Float[Tensor, "B T E"], hidden: Float[Tensor, "B D"], carry: Carry
    ) -> Float[Tensor, "B T D"]:
        """The hidden state after each input."""
        outputs, _ = self(inputs, hidden.unsqueeze(0).contiguous())
        return outputs  # type: ignore[no-any-return]

    def enter(self, inputs: Float[Tensor, "*N E"], columns: slice = ALL, *, bias: bool = True) -> Gates:
        """W x + b of some columns of the input; the bias of U h for r and z, which are only ever summed, is in it."""
        both, new = self._parts(self.weight_ih_l0[:, columns])
        if not bias:
            return functional.linear(inputs, both), functional.linear(inputs, new)
        both_bias, _ = self._parts(self.bias_ih_l0 + self.bias_hh_l0)
        _, new_bias = self._parts(self.bias_ih_l0)
        return functional.linear(inputs, both, both_bias), functional.linear(inputs, new, new_bias)

    def recur(self, hidden: Float[Tensor, "B R D"]) -> Gates:
        """U h, and the bias that belongs inside r ∘ (U h + b)."""
        both, new = self._parts(self.weight_hh_l0)
        return functional.linear(hidden, both), functional.linear(hidden, new, self._parts(self.bias_hh_l0)[1])

    def advance(
        self, entering: Gates, hidden: Float[Tensor, "B R D"], carry: Carry, own: Gates | None
    ) -> tuple[Float[Tensor, "B R D"], Carry]:
        """One step of every row; `own` is `recur(hidden)` where it is known."""
        if own is None:
            both_weight, new_weight = self._parts(self.weight_hh_l0)
            both = add_product(entering[0], hidden, both_weight)
            own_new = functional.linear(hidden, new_weight, self._parts(self.bias_hh_l0)[1])
        else:
            both, own_new = entering[0] + own[0], own[1]
        reset, update = both.sigmoid_().chunk(2, dim=-1)
        if torch.is_grad_enabled():
            new = torch.addcmul(entering[1], reset, own_new).tanh_()
        else:
            new = tanh_(entering[1].addcmul_(reset, own_new))
        return torch.lerp(new, hidden.to(new.dtype), update), None

    def _parts(self, stacked: Tensor) -> tuple[Tensor, Tensor]:
        width = self.hidden_size
        return stacked[: 2 * width], stacked[2 * width :]


class LstmLayer(nn.LSTM):
    """One LSTM layer: c' = f ∘ c + i ∘ g, h' = o ∘ tanh(c')."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor
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

    def enter(self, inputs: Float[Tensor, "*N E"], columns: slice = ALL, *, bias: bool = True) -> Gates:
        """W x + b of some columns of the input; the bias of U h is in it."""
        both = self.bias_ih_l0 + self.bias_hh_l0 if bias else None
        return (functional.linear(inputs, self.weight_ih_l0[:, columns], both),)

    def recur(self, hidden: Float[Tensor, "B R D"]) -> Gates:
        """U h."""
        return (functional.linear(hidden, self.weight_hh_l0),)

    def advance(
        self, entering: Gates, hidden: Float[Tensor, "B R D"], carry: Carry, own: Gates | None
    ) -> tuple[Float[Tensor, "B R D"], Carry]:
        """One step of every row; `own` is `recur(hidden)` where it is known."""
        assert carry is not None
        gates = add_product(entering[0], hidden, self.weight_hh_l0) if own is None else entering[0] + own[0]
        enter, forget, new, leave = gates.chunk(4, dim=-1)
        carry = forget.sigmoid() * carry + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * carry.tanh(), carry

    def carries(
        self, inputs: Float[Tensor, "B T E"], outputs: Float[Tensor, "B T D"], hidden: Tensor, carry: Tensor
    ) -> Float[Tensor, "B T D"]:
        """The second state after each input, which the library's kernel does not return: its gates, then a scan."""
        before = torch.cat([hidden.unsqueeze(1), outputs[:, :-1]], dim=1)
        enter, forget, new, _ = (self.enter(inputs)[0] + self.recur(before)[0]).chunk(4, dim=-1)
        entering, kept = enter.sigmoid() * new.tanh(), forget.sigmoid()
        states = []
        for cell in range(inputs.shape[1]):
            carry = kept[:, cell] * carry + entering[:, cell]
            states.append(carry)
        return torch.stack(states, dim=1)


def add_product(gates: Float[Tensor, "B R G"], hidden: Float[Tensor, "B R D"], weight: Tensor) -> Tensor:
    """`gates + U h`, the sum taken inside the product; without a gradient in place, as the gates are needed no more."""
    if torch.is_grad_enabled() or gates.dtype != weight.dtype:  # under autocast the types differ
        return torch.addmm(gates.flatten(0, 1), hidden.flatten(0, 1), weight.t()).view_as(gates)
    gates.view(-1, gates.shape[-1]).addmm_(hidden.flatten(0, 1), weight.t())
    return gates


def tanh_(values: Tensor) -> Tensor:
    """tanh in place, without a gradient. On a CPU as 2 σ(2 x) - 1: the library's tanh takes 4 times as long."""
    if not reads_are_free(values.device):
        return values.tanh_()
    return torch.add(values.new_full((), -1), values.mul_(2).sigmoid_(), alpha=2, out=values)


Layer = GruLayer | LstmLayer
LAYERS: dict[str, type[GruLayer] | type[LstmLayer]] = {"gru": GruLayer, "lstm": LstmLayer}
