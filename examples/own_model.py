"""A PyTorch module that you already have, trained by SEARNN without changing it.

    python examples/own_model.py        # half a minute

`Seq2Seq` is what a tutorial would give you: an encoder, a decoder, and a `forward` fed with the truth. SEARNN must be
able to stop at any cell and go on with another token, so it needs the decoder one step at a time. `Steppable` says how:
`encode` once, `start` a row, `step` all rows by a token. That is the whole adapter.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from searnn import Batch, Inputs, Mle, Searnn, Vocabulary
from searnn.costs import EditDistance
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed
from searnn.tasks import Copy
from searnn.training import evaluate


class Seq2Seq(nn.Module):
    """The module that was there before: it knows nothing of searnn."""

    def __init__(self, source_size: int, target_size: int, scored: int, width: int) -> None:
        super().__init__()
        self.source = nn.Embedding(source_size, width)
        self.target = nn.Embedding(target_size, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, scored)

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        """The state after each source's last real token."""
        states, _ = self.encoder(self.source(source))
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.shape[-1])
        return states.gather(1, last).squeeze(1)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Scores of the next token after each of the target's, teacher-forced."""
        states, _ = self.decoder(self.target(target), self.encode(source, lengths).unsqueeze(0))
        return self.out(states)


class Steppable(nn.Module):
    """The same module as searnn steps it. Rows are an axis of their own: tokens `[B, R]`, states `[B, R, D]`."""

    def __init__(self, inner: Seq2Seq, vocab: Vocabulary) -> None:
        super().__init__()
        self.inner, self.vocab = inner, vocab

    def encode(self, inputs: Inputs) -> Tensor:
        return self.inner.encode(inputs.values, inputs.lengths)  # [B, D]

    def start(self, memory: Tensor) -> Tensor:
        return memory.unsqueeze(1)  # one row per example

    def step(self, memory: Tensor, state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        read = self.inner.target(tokens).flatten(0, 1).unsqueeze(1)  # [B R, 1, D]: rows are the decoder's batch
        written, _ = self.inner.decoder(read, state.flatten(0, 1).unsqueeze(0))
        state = written.view_as(state)
        return self.inner.out(state), state


def main() -> None:
    """Train the same module by maximum likelihood and by SEARNN."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="updates of each [400]")
    parser.add_argument("--width", type=int, default=48, help="units of the model [48]")
    given = parser.parse_args()

    task = Copy(symbols=6, length=5, reverse=True)  # read a string, write it backwards
    searnn = Searnn(roll_in=Learned(), roll_out=Mixed(), cost=EditDistance(), loss=KLLoss(alpha=30))
    for name, algorithm in (("mle", Mle()), ("searnn", searnn)):
        torch.manual_seed(0)
        sizes = {"source_size": task.source_size, "target_size": task.vocab.embeddings, "scored": task.vocab.size}
        inner = Seq2Seq(**sizes, width=given.width)
        model = Steppable(inner, task.vocab)
        check(model, next(iter(task.valid(4))))
        optimizer, rng = torch.optim.Adam(model.parameters(), lr=0.01), torch.Generator().manual_seed(0)
        batches = task.train(batch_size=32, seed=0)
        for step in range(given.steps):
            loss = algorithm(model, batches.batch(step), rng).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error = evaluate(model, task.test(100), task)["error"]
        print(f"{name:<8} last loss {loss.item():.3f}, test error {error:.3f}")


def check(model: Steppable, batch: Batch) -> None:
    """Stepping must give the scores that the module's own forward gives: the one test an adapter needs."""
    reads = torch.cat([torch.full_like(batch.targets[:, :1], model.vocab.bos), batch.targets[:, :-1]], dim=1)
    memory = model.encode(batch.inputs)
    state, stepped = model.start(memory), []
    for token in reads.unbind(1):
        scores, state = model.step(memory, state, token.unsqueeze(1))
        stepped.append(scores)
    torch.testing.assert_close(torch.cat(stepped, 1), model.inner(*batch.inputs, reads))


if __name__ == "__main__":
    main()
