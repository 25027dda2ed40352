"""The one typed configuration: every setting, its type, its range and one line that says what it is.

The flags of the command line and the sections of a TOML file are both made from it. Every setting may be left unset
(None); `resolve` fills in what the task's recipe says, and only where the setting applies.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from searnn.config import kinds

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Off = Literal["none"]
Files = Annotated[list[str], AfterValidator(kinds.files)]
Level = Literal["chars", "words", "sentencepiece"]
Probability = Annotated[float | str, AfterValidator(kinds.probability)]
Steps = Annotated[int | str, AfterValidator(kinds.focus_steps)]
Border = Annotated[int | str, AfterValidator(kinds.whole(0, "linear:12:0:10000"))]
Beam = Annotated[int | str, AfterValidator(kinds.whole(1, "stepwise:2:1:2000"))]
Algorithm = Annotated[str, AfterValidator(kinds.member("algorithm"))]
Baseline = Literal["learned", "none", "greedy", "leave-one-out"]


def setting(description: str) -> Any:
    """A setting that may be left unset."""
    return Field(default=None, description=description)


class Group(BaseModel):
    """A section of the configuration: nothing unknown, nothing infinite, nothing changed afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TaskGroup(Group):
    """What is learned, and on which part of the data."""

    name: str | None = setting("the task")
    fold: Annotated[int, Field(ge=0, le=9)] | None = setting("the fold that is the test set")
    split: Literal["fold", "words"] | None = setting("fold as in the paper, or words: no test word in training")
    data: Annotated[str, AfterValidator(kinds.file)] | None = setting("another file in the form of the public data")
    symbols: Count | None = setting("number of different symbols")
    length: Count | None = setting("most symbols of a string")
    examples: Count | None = setting("number of training strings")
    reverse: bool | None = setting("write the string backwards")
    train: Files | None = setting("training files; pairs: one with tabs, or sources and targets")
    valid: Files | None = setting("validation files, likewise")
    test: Files | None = setting("test files, likewise")
    corpus: Literal["multi30k", "iwslt14", "tatoeba"] | None = setting("the public data")
    benchmark: bool | None = setting("the text with the One Billion Word benchmark, not the Bible")
    direction: Literal["de-en", "en-de"] | None = setting("from which language to which")
    level: Level | None = setting("what a token is")
    target_level: Level | None = setting("what a token of the targets is, where it differs")
    min_count: Count | None = setting("fewest times that a unit of the vocabulary is in the training data")
    max_vocab: Off | Annotated[int, Field(ge=2)] | None = setting("most units of the vocabulary, or none for no limit")
    pieces: Count | None = setting("number of pieces that sentencepiece learns")
    max_length: Count | None = setting("most units of a line; a longer one is a bad line")
    skip_bad_lines: bool | None = setting("leave bad lines out instead of refusing them")
    noise: Annotated[float, Field(ge=0, le=1)] | None = setting("chance that a character is replaced")
    windows: bool | None = setting("train on all windows of ten characters, not only the first of a line")
    stress: bool | None = setting("keep the marks of stress on phonemes")
    data_seed: Whole | None = setting("seed of the data's split, strings or noise, apart from --seed")


class ModelGroup(Group):
    """The encoder-decoder."""

    model: Annotated[str, AfterValidator(kinds.member("model"))] | None = setting("the family of the model")
    attention: Literal["none", "additive", "aligned"] | None = setting("how the decoder reads the encoder's states")
    width: Count | None = setting("units of the encoder (each direction) and of the decoder")
    layers: Count | None = setting("layers of the encoder and of the decoder")
    heads: Count | None = setting("attention heads of a transformer")
    feedforward: Count | None = setting("units of a transformer's inner layers")
    window: Count | None = setting("source positions that a convolution sees")
    bidirectional: bool | None = setting("read the input in both directions")
    embedding: Count | None = setting("width of the token embeddings")
    dropout: Fraction | None = setting("dropout of the gradient pass; the search has none")


class MethodGroup(Group):
    """How it is learned."""

    algorithm: Algorithm | None = setting("the training algorithm, one of those above")
    sampling_probability: Probability | None = setting("chance that the model's own token is fed, not the true one")
    own_tokens: Literal["greedy", "sampled"] | None = setting("how the model's own tokens are made")
    beta: Annotated[float, Field(ge=0, le=1)] | None = setting("share of a round's classifier in the policy")
    rounds: Count | None = setting("number of rounds; the last has all updates that are left")
    round_steps: Count | None = setting("updates of a round")
    buffer: Count | None = setting("rounds whose roll-ins are kept")
    reference_decay: Annotated[float, Field(ge=0, le=1)] | None = setting("factor of the reference's share per round")
    train_beam: Beam | None = setting("beam width of training")
    margin: NotNegative | None = setting("by how much the truth must beat the beam's last")
    cost_weighted: bool | None = setting("violations count by what they cost")
    samples: Count | None = setting("outputs drawn for an example")
    baseline: Baseline | None = setting("what costs are compared with")
    entropy_bonus: NotNegative | None = setting("reward for a cell's entropy")
    cross_entropy_cells: Border | None = setting("first cells that are trained by cross-entropy")
    cross_entropy_weight: NotNegative | None = setting("weight of the truth's cross-entropy in the loss")
    label_smoothing: Fraction | None = setting("share of its target spread over all tokens")
    sharpness: Positive | None = setting("power of the model's probabilities of the candidates")
    with_truth: bool | None = setting("the truth is one of the candidates")
    tau: NotNegative | None = setting("temperature of the distribution over targets; 0 keeps the best alone")
    critic_width: Count | None = setting("units of the critic")
    critic_steps: Whole | None = setting("first updates, of the critic alone")
    delay: Annotated[float, Field(gt=0, le=1)] | None = setting("share by which delayed copies follow at an update")
    variance_penalty: NotNegative | None = setting("penalty on the spread of the critic's values")


class SearchGroup(Group):
    """Roll in, branch, roll out, cost: the paper's Algorithm 1."""

    roll_in: Annotated[str, AfterValidator(kinds.member("roll_in"))] | None = setting("policy that makes the prefix")
    roll_in_reference_probability: Probability | None = setting("chance of the reference in a mixed roll-in")
    roll_in_mix_per: Literal["example", "token"] | None = setting("what one coin of a mixed roll-in decides")
    temperature: Positive | None = setting("temperature of a sampled roll-in")
    roll_out: Annotated[str, AfterValidator(kinds.member("roll_out"))] | None = setting("policy that ends the output")
    reference_probability: Probability | None = setting("chance of the reference in a mixed roll-out")
    mix_per: Literal["example", "cell", "branch", "token"] | None = setting("what one coin of a mixed roll-out decides")
    focus_steps: Steps | None = setting("learned steps of a focused roll-out before the reference")
    roll_out_beam: Count | None = setting("beam width of the learned roll-out; 1 is greedy")
    cost: Annotated[str, AfterValidator(kinds.member("cost"))] | None = setting("test error that the search minimises")
    normalised_cost: bool | None = setting("divide the cost by the true length")
    oracle: Annotated[str, AfterValidator(kinds.member("oracle"))] | None = setting("how the reference ends an output")
    measure: Literal["bleu-1", "bleu-4", "gleu"] | None = setting("what the best suffix is best by")
    bleu: Literal["leblond", "bahdanau", "lin-och"] | None = setting("how BLEU is smoothed")
    tokens: Annotated[str, AfterValidator(kinds.tokens)] | None = setting("candidates")
    k: Count | None = setting("number of candidate tokens, the true one among them")
    boost: Annotated[float, Field(gt=0, lt=1)] | None = setting("biased tokens: power of the model's probabilities")
    threshold: Annotated[float, Field(ge=0, le=1)] | None = setting("targeted tokens: how near to the top probability")
    cells: Annotated[str, AfterValidator(kinds.member("cells"))] | None = setting("cells that are costed")
    n_cells: Count | None = setting("number of costed cells")
    budget: Literal["auto"] | Count | None = setting("memory of roll-outs that run together in MiB, or auto")


class LossGroup(Group):
    """From costs to a gradient."""

    loss: Annotated[str, AfterValidator(kinds.member("loss"))] | None = setting("cost-sensitive loss of a cell")
    alpha: NotNegative | None = setting("weight of the costs")
    ties: Literal["random", "model"] | None = setting("how ties for the cheapest token are broken")
    normalisation: Literal["batch", "cell", "sum"] | None = setting("mean over examples, mean over cells or plain sum")
    classifier: Literal["network", "cell"] | None = setting("what the gradient goes through (Appendix B)")


class OptimisationGroup(Group):
    """Where it starts, steps, step sizes and when to stop."""

    optimizer: Literal["sgd", "adam", "adamw"] | None = setting("the optimiser")
    lr: Positive | None = setting("learning rate")
    momentum: Fraction | None = setting("momentum (sgd)")
    weight_decay: NotNegative | None = setting("weight decay")
    schedule: Literal["constant", "plateau", "linear", "cosine"] | None = setting("how the learning rate moves")
    min_lr: NotNegative | None = setting("lowest learning rate of the schedule")
    lr_warmup: Whole | None = setting("steps in which the learning rate rises to its value")
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] | None = setting("factor of a plateau's reduction")
    plateau_patience: Whole | None = setting("evaluations without improvement before a reduction")
    clip: Off | Positive | None = setting("largest global norm of the gradient, or none")
    average: Fraction | None = setting("decay of an average of weights, evaluated and kept instead; 0: none")
    batch_size: Count | None = setting("examples per step, of all processes together")
    accumulate: Count | None = setting("parts that a process cuts its batch into, to need less memory")
    minutes: Off | Positive | None = setting("stop after so many minutes, or none")
    steps: Off | Count | None = setting("stop after so many steps, or none")
    patience: Off | Count | None = setting("stop after so many evaluations without improvement, or none")
    eval_every: Count | None = setting("steps between evaluations")
    keep_every: Off | Count | None = setting("steps between models that are kept for searnn explain, or none")
    init_from: Annotated[str, AfterValidator(kinds.run)] | None = setting("begin with the best model of another run")
    warm_up: Whole | None = setting("updates by maximum likelihood before those of the algorithm")
    warm_up_lr: Positive | None = setting("learning rate of these updates")
    metric: Annotated[str, AfterValidator(kinds.metric)] | None = setting("what decides which model is best")


class RunGroup(Group):
    """Where and how it runs."""

    seed: Whole | None = setting("seed of all randomness")
    device: Annotated[str, AfterValidator(kinds.device)] | None = setting("auto, cpu, cuda or cuda:N")
    precision: Literal["32-true", "16-mixed", "bf16-mixed", "64-true"] | None = setting("arithmetic of training")
    engine: Literal["auto", "plain", "triton"] | None = setting("plain: no fast paths in the search")
    search_precision: Literal["float32", "tf32", "bf16"] | None = setting("arithmetic of the fast paths")
    compile: Literal["auto", "on", "off"] | None = setting("record steps as CUDA graphs")
    tensorboard: bool | None = setting("also write TensorBoard records")
    threads: Literal["auto"] | Count | None = setting("CPU threads, or auto")


class Config(Group):
    """Every setting of a run, in groups; the names are unique over all groups."""

    task: TaskGroup = TaskGroup()
    model: ModelGroup = ModelGroup()
    method: MethodGroup = MethodGroup()
    search: SearchGroup = SearchGroup()
    loss: LossGroup = LossGroup()
    optimisation: OptimisationGroup = OptimisationGroup()
    run: RunGroup = RunGroup()

    def flat(self) -> dict[str, Any]:
        """All settings by name, unset ones as None, in the order of the groups."""
        return {name: getattr(getattr(self, group), name) for name, group in GROUP_OF.items()}


GROUPS: dict[str, type[Group]] = {name: field.annotation for name, field in Config.model_fields.items()}  # type: ignore[misc]
GROUP_OF: dict[str, str] = {name: group for group, model in GROUPS.items() for name in model.model_fields}


def grouped(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by name put under their groups; unset ones are left out."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if value is not None:
            sections.setdefault(GROUP_OF[name], {})[name] = value
    return sections
