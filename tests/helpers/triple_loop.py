"""`search` beside the triple loop of `naive`: every policy on lists, with the random numbers that the policy draws."""

import torch
from cases import rng
from naive import COSTS, Example, strip

from searnn import search
from searnn.costs import EditDistance, ExactMatch, Hamming, from_callable
from searnn.oracles import OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.rng import spawn, uniform

costs = {
    "hamming": Hamming(),
    "edit": EditDistance(),
    "exact": ExactMatch(),
    "callable": from_callable(COSTS["callable"]),
}


def naive_policy(policy, example, tokens, coins):
    """Finish one list of tokens; `coins` gives this row's random numbers: a scalar, or one per cell."""
    if isinstance(policy, Reference):
        return example.optimal(tokens) if isinstance(policy.oracle, OptimalEdit) else example.copy(tokens)
    if isinstance(policy, Learned):
        if policy.beam == 1:
            return example.greedy(tokens)
        return example.beam(tokens, policy.beam, policy.length_penalty)
    if isinstance(policy, Sampled):
        return example.sampled(tokens, coins)
    if isinstance(policy, Focused):
        return naive_policy(policy.reference, example, example.greedy(tokens, policy.steps), None)
    if policy.per != "token":
        half = policy.reference if coins < policy.reference_probability else policy.learned
        return naive_policy(half, example, tokens, None)
    tokens = list(tokens)
    while not example.ended(tokens):
        if coins[len(tokens)] >= policy.reference_probability:
            tokens.append(example.greedy(tokens, 1)[-1])
        elif tokens:
            tokens.append(naive_policy(policy.reference, example, tokens, None)[len(tokens)])
        else:
            tokens.append(example.true_token(0))
    return tokens


def naive_roll_in(policy, example, draws):
    if isinstance(policy, Reference):
        truth = [*example.truth, example.vocab.eos] if example.vocab.eos is not None else example.truth
        return truth[: example.limit]
    if isinstance(policy, Mixed) and policy.per != "token" and draws[example.number] < policy.reference_probability:
        return naive_roll_in(policy.reference, example, None)
    if isinstance(policy, Mixed) and policy.per != "token":
        return naive_policy(policy.learned, example, [], None)
    return naive_policy(policy, example, [], None if draws is None else draws[example.number])


def numbers_for(policy, batch, result, generator, roll_in):
    """The random numbers the policy draws, as nested lists, in the shape that it documents."""
    count, width = batch.targets.shape
    cells, candidates = result.tokens.shape[1:]
    if isinstance(policy, Sampled) or (isinstance(policy, Mixed) and policy.per == "token"):
        shape = (count, 1, width) if roll_in else (count, cells * candidates, width)
        drawn = uniform(shape, generator, torch.device("cpu"))
        return drawn[:, 0].tolist() if roll_in else drawn.view(count, cells, candidates, width).tolist()
    if isinstance(policy, Mixed):
        if roll_in:
            return uniform((count,), generator, torch.device("cpu")).tolist()
        shape = {"example": (count, 1, 1), "cell": (count, cells, 1), "branch": (count, cells, candidates)}[policy.per]
        return uniform(shape, generator, torch.device("cpu")).expand(count, cells, candidates).tolist()
    return None


def check(model, batch, roll_in, roll_out, seed=0, cost_names=tuple(costs), **samplers):
    """Compare every field of the result with the loop."""
    result = search(model, batch, roll_in=roll_in, roll_out=roll_out, cost=Hamming(), rng=rng(seed), **samplers)
    for_roll_in, _, _, for_roll_out = spawn(rng(seed), 4)
    in_draws = numbers_for(roll_in, batch, result, for_roll_in, True)
    out_draws = numbers_for(roll_out, batch, result, for_roll_out, False)
    expected = {name: torch.zeros_like(result.costs) for name in cost_names}
    vocab = model.vocab
    compared = 0
    for b in range(len(batch.targets)):
        example = Example(model, batch, b)
        prefix = naive_roll_in(roll_in, example, in_draws)
        assert result.prefix[b].tolist() == prefix + [vocab.pad] * (batch.targets.shape[1] - len(prefix))
        for c, cell in enumerate(result.cells[b].tolist()):
            seen = set()
            for k, token in enumerate(result.tokens[b, c].tolist()):
                fresh = cell < len(prefix) and cell not in result.cells[b, :c].tolist() and token not in seen
                seen.add(token)
                assert bool(result.valid[b, c, k]) == (fresh and token in vocab.choosable), (b, cell, token)
                if not result.valid[b, c, k]:
                    continue
                coins = None if out_draws is None else out_draws[b][c][k]
                finished = naive_policy(roll_out, example, [*prefix[:cell], token], coins)
                written = [t for t in result.outputs[b, c, k].tolist() if t != vocab.pad]
                assert written == finished, (b, cell, token)
                for name in cost_names:
                    expected[name][b, c, k] = COSTS[name](strip(finished, vocab), example.truth)
                compared += 1
    assert compared
    for name in cost_names:
        other = search(model, batch, roll_in=roll_in, roll_out=roll_out, cost=costs[name], rng=rng(seed), **samplers)
        torch.testing.assert_close(other.costs, expected[name], msg=lambda text, name=name: f"{name}: {text}")
    return result
