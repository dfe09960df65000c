"""Types of the documents that the program prints as JSON, one for each of `rehearse list schema`.

Made of these schemas by tests/python/documents, which holds them against each other. Units stand in
the names of keys: `_s` are seconds.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class ReportArchitecture(TypedDict):
    family: str | None
    layers: int
    parameters: int
    active_parameters: int
    trainable_parameters: int
    flops_forward: float | None


class ReportFrameworkSet(TypedDict):
    key: str
    value: str
    source: str


class ReportFramework(TypedDict):
    name: str
    title: str
    version: str
    said: bool
    line: str
    set: list[ReportFrameworkSet]


class ReportSteadyState(TypedDict):
    reached: bool
    from_s: float
    to_s: float
    steps_of_slowest_worker: float
    throughput_error: float
    staleness_error: float


class ReportBreakdown(TypedDict):
    compute_s: float
    exposed_communication_s: float
    hidden_communication_s: float
    idle_s: float


class ReportStagesBubble(TypedDict):
    warm_up_s: float
    steady_s: float
    cool_down_s: float


class ReportStages(TypedDict):
    stage: int
    rank: int
    compute_s: float
    exposed_communication: dict[str, float]
    bubble: ReportStagesBubble


class ReportMemoryLargestAtPeak(TypedDict):
    unit: str
    kind: Literal[
        "parameters", "gradients", "optimizer_state", "activations", "buckets", "gathered",
        "workspace", "communication"]
    bytes: float
    tensors: int


class ReportMemoryOutOfMemory(TypedDict):
    at: str
    message: str


class ReportMemoryPrograms(TypedDict):
    name: str
    rank: int
    allocated_peak_bytes: float
    reserved_peak_bytes: float | None
    fits: bool


class ReportMemoryWouldFit(TypedDict):
    change: str
    set: str
    changes_training: bool
    at_risk: bool
    allocated_peak_bytes: float
    reserved_peak_bytes: float | None
    used_bytes: float
    step_time_s: float
    samples_per_s: float
    price: float


class _ReportMemory(TypedDict):
    allocated_peak_bytes: float
    reserved_peak_bytes: float | None
    by_kind: dict[str, float]
    peak_at: str
    largest_at_peak: list[ReportMemoryLargestAtPeak]
    fragmentation_bytes: float | None
    alloc_retries: int
    context_bytes: float
    communicators_bytes: float
    capacity_bytes: float | None
    used_bytes: float
    fits: bool | None
    verdict: str | None
    needed_interval_bytes: list[float] | None
    out_of_memory: ReportMemoryOutOfMemory | None
    largest_batch_per_gpu: int | None
    programs: list[ReportMemoryPrograms]


class ReportMemory(_ReportMemory, total=False):
    would_fit: list[ReportMemoryWouldFit] | None


class _ReportStaleness(TypedDict):
    mean: float
    p50: int
    p99: int
    max: int
    histogram: dict[str, int]


class ReportStaleness(_ReportStaleness, total=False):
    between_push_and_pull: float | None


class ReportCollectives(TypedDict):
    collective: str
    ranks: int
    nodes: int
    bytes: float
    count: int
    time_s: float
    low_s: float
    high_s: float
    busbw_GBps: float
    algorithm: str
    protocol: str
    answered_by: str
    outside: str


class ReportCores(TypedDict):
    threads: int
    cores: int
    oversubscribed: bool
    ready_s: float | None
    recorded_ready_s: float | None
    recorded_step_s: float | None


class ReportOtherJobs(TypedDict):
    model: str
    strategy: str
    nodes: list[int]
    steps: int
    step_time_s: float | None


class ReportActing(TypedDict):
    name: str
    key: str


class ReportLossAmount(TypedDict):
    value: float
    low: float
    high: float


class ReportLossParts(TypedDict):
    name: str
    ratio: ReportLossAmount
    source: str


class ReportLoss(TypedDict):
    asked: Literal["length", "like", "target"]
    method: str
    like_tokens: float | None
    unit: str
    amount: ReportLossAmount | None
    parts: list[ReportLossParts]
    line: str


class ReportCostUsdByPart(TypedDict):
    training: float
    failures: float
    start: float
    energy: float


class ReportCost(TypedDict):
    usd: float | None
    gpu_hours: float
    usd_by_part: ReportCostUsdByPart | None
    energy_kwh: float | None
    co2_kg: float | None
    prices: list[str]


class ReportEnergy(TypedDict):
    power_w: float
    gpus_w: float
    hosts_w: float
    pue_w: float
    step_j: float


class ReportGoodput(TypedDict):
    share: float
    expected_time_s: float
    expected_time_spread_s: list[float]
    checkpoint_interval_s: float | None
    checkpoint_write_s: float | None
    young_daly_s: float | None
    daly_higher_order_s: float | None
    job_mtbf_s: float | None
    failures_expected: float
    checkpoints_expected: float
    checkpoint_s: float
    lost_s: float
    recovery_s: float
    waiting_s: float
    slower_s: float
    start_s: float
    expectation: Literal["closed form", "mean of the trainings played"]
    trainings: int


class ReportStart(TypedDict):
    mode: Literal["elastic", "gang"]
    first_step_s: float
    all_there_s: float
    all_there_spread_s: list[float]
    delay_s: float
    samples_meanwhile: float


class ReportIntervalBasisTime(TypedDict):
    name: str
    share: float
    half_width: float
    whole: float | None


class ReportIntervalBasisMemory(TypedDict):
    allocated: list[ReportIntervalBasisTime]
    used: list[ReportIntervalBasisTime]


class ReportIntervalBasis(TypedDict):
    time: list[ReportIntervalBasisTime]
    memory: ReportIntervalBasisMemory


ReportComputeFamilies = TypedDict("ReportComputeFamilies", {
    "family": Literal[
        "matrix products", "products in 8 or 4 bits", "attention", "convolutions",
        "depthwise convolutions", "norms and losses", "pointwise", "embeddings", "pooling",
        "copies", "whole units", "optimizer"],
    "ground": Literal["given", "measured", "transferred", "fitted", "carried over", "datasheet"],
    "from": str,
    "off": float | None,
    "forward_s": float,
    "backward_s": float,
    "share": float | None,
    "within_measured": float,
    "farthest": float | None,
})


class ReportComputeUnits(TypedDict):
    first: str
    last: str
    count: int
    forward_s: float
    backward_s: float
    grounds: dict[str, float]
    within_measured: float
    farthest: float | None


class ReportCompute(TypedDict):
    gpu: str
    families: list[ReportComputeFamilies]
    units: list[ReportComputeUnits]


class _Report(TypedDict):
    schema: Literal["rehearse.report/1"]
    scenario: str
    description: str
    answer: str
    model: str
    architecture: ReportArchitecture
    cluster: str
    strategy: str
    framework: ReportFramework
    precision: str
    batch_per_gpu: int
    global_batch: int
    ranks: int
    nodes: int
    work: Literal[
        "servers", "experts", "adapters", "layouts", "one GPU", "replicas in a node",
        "replicas on nodes"]
    fidelity: str
    step_time_s: float
    step_time_interval_s: list[float] | None
    step_time_spread_s: list[float]
    worker_step_time_s: float | None
    worker_step_times_s: list[float]
    samples_per_s: float
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    model_tflops_per_gpu: float | None
    steady_state: ReportSteadyState | None
    epoch_time_s: float | None
    train_time_s: float | None
    breakdown: ReportBreakdown
    gpu_utilization: float
    mfu: float | None
    mfu_all_pairs: float | None
    hfu: float | None
    memory: ReportMemory | None
    staleness: ReportStaleness | None
    collectives: list[ReportCollectives]
    step_time_alone_s: float | None
    other_jobs: list[ReportOtherJobs]
    accuracy: dict[str, Any] | None
    accuracy_from: str
    cost: ReportCost | None
    energy: ReportEnergy | None
    goodput: ReportGoodput | None
    start: ReportStart | None
    intervals: dict[str, list[float]]
    interval_basis: ReportIntervalBasis
    bottleneck: str
    provenance: str
    compute: list[ReportCompute]
    outside_calibration: list[str]
    assumptions: list[str]
    seed: int
    replications: int
    replications_error: float | None
    versions: dict[str, str]


class Report(_Report, total=False):
    param_dtype: str | None
    stages: list[ReportStages]
    cores: ReportCores | None
    routing_taken: str | None
    acting: list[ReportActing] | None
    loss: ReportLoss | None


class ExplainCriticalPathByUnit(TypedDict):
    unit: str
    s: float
    share: float


class ExplainCriticalPathByRank(TypedDict):
    rank: int
    s: float
    share: float


class ExplainCriticalPathByLink(TypedDict):
    link: str
    where: str
    s: float
    share: float
    latency_s: float
    bandwidth_s: float
    contention_s: float


class ExplainCriticalPathSegments(TypedDict):
    rank: int
    lane: str
    label: str
    unit: str
    kind: str
    start_s: float
    duration_s: float
    waited_for: str


class ExplainCriticalPath(TypedDict):
    total_s: float
    steps: int
    by_kind: dict[str, float]
    by_unit: list[ExplainCriticalPathByUnit]
    by_rank: list[ExplainCriticalPathByRank]
    by_link: list[ExplainCriticalPathByLink]
    segments_step: int
    segments: list[ExplainCriticalPathSegments]


class ExplainRanksIdle(TypedDict):
    host_s: float
    peer_s: float
    server_s: float


class ExplainRanks(TypedDict):
    rank: int
    program: str
    step_s: float
    compute_s: float
    exposed_communication_s: float
    hidden_communication_s: float
    idle_s: float
    idle: ExplainRanksIdle
    slack_s: float


class ExplainPipelineStagesBubbleWaitsFor(TypedDict):
    stages_s: dict[str, float]
    exchanges: dict[str, float]
    host_s: float


class ExplainPipelineStages(TypedDict):
    stage: int
    rank: int
    compute_s: float
    exposed_communication: dict[str, float]
    bubble: ReportStagesBubble
    step_s: float
    bubble_waits_for: ExplainPipelineStagesBubbleWaitsFor


class ExplainPipelineBubbleCauses(TypedDict):
    cause: str
    s: float


class ExplainPipeline(TypedDict):
    slowest_stage: int
    stages: list[ExplainPipelineStages]
    bubble_causes: list[ExplainPipelineBubbleCauses]


class _ExplainAttributionCauses(TypedDict):
    cause: str
    words: str
    step_time_s: float
    samples_per_s: float
    saved_s: float
    saved_share: float


class ExplainAttributionCauses(_ExplainAttributionCauses, total=False):
    cumulative_step_time_s: float | None


class ExplainAttributionWorkers(TypedDict):
    rank: int
    step_time_s: float
    samples_per_s: float
    saved_s: float
    saved_share: float


class _ExplainAttributionOperations(TypedDict):
    operation: str
    words: str
    step_time_s: float
    samples_per_s: float
    saved_s: float
    saved_share: float


class ExplainAttributionOperations(_ExplainAttributionOperations, total=False):
    cumulative_step_time_s: float | None


class ExplainAttribution(TypedDict):
    ideal_step_s: float
    slowdown: float | None
    causes: list[ExplainAttributionCauses]
    workers: list[ExplainAttributionWorkers]
    operations: list[ExplainAttributionOperations]


class _ExplainSoftware(TypedDict):
    setting: str
    words: str
    step_time_s: float
    samples_per_s: float
    saved_s: float
    saved_share: float


class ExplainSoftware(_ExplainSoftware, total=False):
    cumulative_step_time_s: float | None


class ExplainMore(TypedDict):
    resource: str
    words: str
    change: float
    step_time_s: float
    samples_per_s: float
    saved_s: float
    saved_share: float
    usd_per_million_samples: float | None


class Explain(TypedDict):
    schema: Literal["rehearse.explain/1"]
    scenario: str
    description: str
    answer: str
    model: str
    cluster: str
    strategy: str
    gpus: int
    nodes: int
    fidelity: str
    step_time_s: float
    samples_per_s: float
    usd_per_million_samples: float | None
    critical_path: ExplainCriticalPath
    collectives: list[ReportCollectives]
    compute: list[ReportCompute]
    ranks: list[ExplainRanks]
    pipeline: ExplainPipeline | None
    attribution: ExplainAttribution
    software: list[ExplainSoftware]
    more: list[ExplainMore]
    words: list[str]


class CompareFirst(TypedDict):
    name: str
    answer: str
    report: Report


class CompareInputs(TypedDict):
    key: str
    first: str | None
    second: str | None


class CompareFigures(TypedDict):
    key: str
    name: str
    first: float | None
    second: float | None
    ratio: float | None
    ratio_interval: list[float] | None
    chance_of_more: float | None


class CompareStep(TypedDict):
    part: str
    first_s: float
    second_s: float


class CompareMemory(TypedDict):
    part: str
    first_bytes: float
    second_bytes: float


class Compare(TypedDict):
    schema: Literal["rehearse.compare/1"]
    description: str
    answer: str
    first: CompareFirst
    second: CompareFirst
    inputs: list[CompareInputs]
    figures: list[CompareFigures]
    errors: str
    scale: float
    step: list[CompareStep]
    collectives: list[CompareStep]
    memory: list[CompareMemory]


class KernelsOperators(TypedDict):
    op: str
    calls: float
    bytes: float
    flops: float
    time_s: float
    share: float


KernelsKernels = TypedDict("KernelsKernels", {
    "op": str,
    "pass": str,
    "reads": list[str],
    "writes": list[str],
    "calls": float,
    "bytes": float,
    "flops": float,
    "time_s": float,
    "share": float,
    "family": str,
    "ground": str,
    "from": str,
})


class KernelsUnits(TypedDict):
    name: str
    forward: list[list[int | float]]
    backward: list[list[int | float]]


class Kernels(TypedDict):
    schema: Literal["rehearse.kernels/1"]
    scenario: str
    model: str
    gpu: str
    precision: str
    batch: int
    calls: float
    bytes: float
    flops: float
    time_s: float
    units_time_s: float
    operators: list[KernelsOperators]
    kernels: list[KernelsKernels]
    units: list[KernelsUnits]


class CollectiveRows(TypedDict):
    bytes: float
    time_s: float
    low_s: float
    high_s: float
    algbw_GBps: float
    busbw_GBps: float
    algorithm: str
    protocol: str
    answered_by: str
    outside: str


class Collective(TypedDict):
    schema: Literal["rehearse.collective/1"]
    collective: str
    cluster: str
    ranks: int
    nodes: int
    rows: list[CollectiveRows]


class PlanResultObjective(TypedDict):
    metrics: list[str]
    words: str


class PlanResultConstraints(TypedDict):
    metric: str
    limit: float | None
    unit: str
    words: str


class PlanResultCounts(TypedDict):
    candidates: int
    pruned: int
    simulated: int
    failed: int
    feasible: int
    duplicates: int


class PlanResultNotLegal(TypedDict):
    rule: str
    layouts: int


class _PlanResultRanking(TypedDict):
    rank: int
    tied: bool
    settings: dict[str, str]
    scenario_overrides: dict[str, Any]
    run: str
    export: str | None
    metrics: dict[str, float | None]
    intervals: dict[str, list[float] | None]
    at_risk: list[str]
    reasons: list[str]


class PlanResultRanking(_PlanResultRanking, total=False):
    beside_choice: list[float] | None | None
    choice_is_better: float | None | None
    step_parts_s: dict[str, float] | None


class PlanResultRejectedFailed(TypedDict):
    constraint: str
    value: float | None
    limit: float | None
    words: str


class PlanResultRejected(TypedDict):
    settings: dict[str, str]
    stage: str
    failed: list[PlanResultRejectedFailed]


PlanResultWouldChange = TypedDict("PlanResultWouldChange", {
    "what": str,
    "from": float,
    "to": float,
    "unit": str,
    "words": str,
    "choice": dict[str, str] | None,
})


class _PlanResult(TypedDict):
    schema: Literal["rehearse.plan/1"]
    plan: str
    description: str
    answer: str
    program: str
    scenario: str
    frameworks: list[str]
    objective: PlanResultObjective
    constraints: list[PlanResultConstraints]
    prices: list[str]
    counts: PlanResultCounts
    ranking: list[PlanResultRanking]
    choice: PlanResultRanking | None
    runner_up: int | None
    safest: int | None
    told: list[int | None]
    rejected: list[PlanResultRejected]
    pareto: list[int]
    would_change: list[PlanResultWouldChange]
    outside_calibration: list[str]
    assumptions: list[str]
    warnings: list[str]


class PlanResult(_PlanResult, total=False):
    not_legal: list[PlanResultNotLegal] | None


class ModelArchitecture(TypedDict):
    family: str
    layers: int
    parameters: int
    active_parameters: int
    flops_forward: float


class ModelUnits(TypedDict):
    name: str
    parameters: int
    active_parameters: int
    flops_forward: float
    saved_bytes: float
    kernels: float


class Model(TypedDict):
    schema: Literal["rehearse.model/1"]
    name: str
    architecture: ModelArchitecture
    sample: str
    source: str
    precision: str
    units: list[ModelUnits]
    assumptions: list[str]


class DecodeRowsStepS(TypedDict):
    products: float
    experts: float
    cache: float
    head: float
    kernels: float
    all_reduce: float
    host: float


class _DecodeRows(TypedDict):
    sequences: float
    fits: bool


class DecodeRows(_DecodeRows, total=False):
    tpot_s: float
    low_s: float
    high_s: float
    tokens_per_s: float
    tokens_per_s_gpu: float
    ttft_s: float
    prompt_steps: float
    step_s: DecodeRowsStepS


class Decode(TypedDict):
    schema: Literal["rehearse.decode/1"]
    network: str
    cluster: str
    gpu: str
    engine: str
    versions: str
    format: str
    of_16_bits: str
    tensor_parallel: int
    attention_data_parallel: int
    expert_parallel: int
    prompt_tokens: float
    response_tokens: float
    weights_bytes: float
    cache_bytes_per_token: float
    cache_bytes: float
    places: float
    generation_measured: bool
    rows: list[DecodeRows]


class RolloutInterval(TypedDict):
    low_s: float
    high_s: float


class RolloutPhases(TypedDict):
    phase: str
    time_s: float


class RolloutTrainer(TypedDict):
    update_s: float
    forward_s: float
    micro_batches: int
    samples: float


class _RolloutMemory(TypedDict):
    phase: str
    own_bytes: float
    beside_bytes: float
    capacity_bytes: float
    verdict: str
    fits: bool


class RolloutMemory(_RolloutMemory, total=False):
    chance_of_fitting: float
    needed_interval_bytes: list[float]


class RolloutGenerationLastCopy(TypedDict):
    at_s: float
    sequences: float
    cache_tokens: float


class RolloutGenerationEnds(TypedDict):
    share: float
    at_s: float


class RolloutGeneration(TypedDict):
    time_s: float
    tail_idle_s: float
    copies: int
    cache_tokens: float
    most_cache_tokens: float
    generated_tokens: float
    computed_tokens: float
    preemptions: int
    last_copy: list[RolloutGenerationLastCopy]
    ends: list[RolloutGenerationEnds]


class RolloutStaleness(TypedDict):
    mean: float
    most: float
    shares: list[float]
    trainer_waits_s: float
    generator_waits_s: float


class _Rollout(TypedDict):
    schema: Literal["rehearse.rollout/1"]
    scenario: str
    network: str
    algorithm: str
    gpus: int
    trainer_gpus: int
    generator_gpus: int
    sequences: int
    tokens: float
    step_time_s: float
    tokens_per_s: float
    fits: bool
    verdict: str | None
    phases: list[RolloutPhases]
    trainer: RolloutTrainer
    memory: list[RolloutMemory]
    warnings: list[str]
    assumptions: list[str]


class Rollout(_Rollout, total=False):
    chance_of_fitting: float
    interval: RolloutInterval
    usd_per_step: float
    train_time_s: float
    generation: RolloutGeneration
    staleness: RolloutStaleness | None


class _RolloutPlanSplits(TypedDict):
    generator_nodes: int
    tensor_parallel: int
    limit: float
    in_flight: bool
    feasible: bool


class RolloutPlanSplits(_RolloutPlanSplits, total=False):
    step_time_s: float
    tokens_per_s: float
    fits: bool
    verdict: str
    chance_of_fitting: float
    usd_per_step: float
    mean_age: float
    why: str


class RolloutPlan(TypedDict):
    schema: Literal["rehearse.rollout_plan/1"]
    scenario: str
    network: str
    nodes: int
    splits: list[RolloutPlanSplits]


class StudyResultPoints(TypedDict):
    point: int
    vary: dict[str, str]
    exit_code: int | None
    error: str | None
    report: dict[str, Any] | None


class StudyResult(TypedDict):
    schema: Literal["rehearse.study/1"]
    study: str
    description: str
    answer: str
    conclusions: list[str]
    fastest: int | None
    cheapest: int | None
    knee: int | None
    scenario: str
    program: str
    axes: list[str]
    points: list[StudyResultPoints]


class ValidationFilesCasesMetricsMechanisms(TypedDict):
    share: float
    half_width: float


class ValidationFilesCasesMetricsCurve(TypedDict):
    inside: int
    intervals: int


class _ValidationFilesCasesMetrics(TypedDict):
    metric: str
    group: str


class ValidationFilesCasesMetrics(_ValidationFilesCasesMetrics, total=False):
    by: str
    predicted: float | bool
    measured: float | bool
    right: bool
    fits_probability: float
    verdict: str
    failure_probability: float
    interval: list[float] | None
    inside: bool | None
    mechanisms: dict[str, ValidationFilesCasesMetricsMechanisms]
    predicted_mean: float
    relative_error: float
    difference: float
    distance: float
    points: float
    curve: ValidationFilesCasesMetricsCurve


class ValidationFilesCases(TypedDict):
    name: str
    strategy: str
    held_out: bool
    note: str
    metrics: list[ValidationFilesCasesMetrics]
    failure: str


class _ValidationFilesNotPredictedCases(TypedDict):
    name: str
    metric: str
    published: float


class ValidationFilesNotPredictedCases(_ValidationFilesNotPredictedCases, total=False):
    why: str


class ValidationFilesNotPredicted(TypedDict):
    why: str
    cases: list[ValidationFilesNotPredictedCases]


class ValidationFiles(TypedDict):
    set: str
    source: str
    calibrated: str
    measured: str
    cases: list[ValidationFilesCases]
    not_predicted: ValidationFilesNotPredicted | None


class _ValidationRelativeErrors(TypedDict):
    group: str
    strategy: str
    numbers: int
    mean: float
    median: float
    p90: float
    max: float
    coverage: ValidationFilesCasesMetricsCurve


class ValidationRelativeErrors(_ValidationRelativeErrors, total=False):
    largest_distance: float | None


class ValidationAccuracyWorstSetting(TypedDict):
    setting: str
    mean_points: float


class ValidationAccuracyVerdicts(TypedDict):
    right: int
    all: int


class ValidationAccuracy(TypedDict):
    group: str
    by: str
    runs: int
    mean_points: float
    max_points: float
    worst_setting: ValidationAccuracyWorstSetting
    coverage: ValidationFilesCasesMetricsCurve
    curve_coverage: ValidationFilesCasesMetricsCurve
    verdicts: ValidationAccuracyVerdicts


class ValidationFailures(TypedDict):
    verdict: str
    runs: int
    expected_to_fail: float
    standard_deviation: float
    failed: int


class ValidationSettingsRealFailed(TypedDict):
    some: int
    all: int


class ValidationSettingsRealAll(TypedDict):
    runs: int
    mean: float
    standard_error: float | None


class ValidationSettingsReal(TypedDict):
    failed: ValidationSettingsRealFailed
    all: ValidationSettingsRealAll | None
    trained: ValidationSettingsRealAll | None


class ValidationSettings(TypedDict):
    group: str
    setting: str
    real: ValidationSettingsReal
    replays: ValidationSettingsReal
    same_failures: float
    within: ValidationFilesCasesMetricsCurve
    expected_within: float


class ValidationRankings(TypedDict):
    rivals: str
    cases: int
    kendall_tau_b: float
    regret: float
    predicted_best: str
    measured_best: str


class ValidationFitsFit(TypedDict):
    right: int
    wrong: int


class ValidationFits(TypedDict):
    set: str
    fit: ValidationFitsFit
    out_of_memory: ValidationFitsFit
    f1_fits: float
    f1_out_of_memory: float


ValidationFitsReliability = TypedDict("ValidationFitsReliability", {
    "from": float,
    "to": float,
    "runs": int,
    "expected_to_fit": float,
    "fit": int,
})


class ValidationScoreboardTime(TypedDict):
    gpu: str
    framework: str
    strategy: str
    cases: int
    mean: float
    median: float
    p90: float
    most: float
    bias: float
    coverage: ValidationFilesCasesMetricsCurve
    half_width: float | None
    interval_score: float | None


class ValidationScoreboardRelations(TypedDict):
    relation: str
    sets: list[str]
    time: ValidationScoreboardTime
    memory: ValidationScoreboardTime


class ValidationScoreboardLayouts(TypedDict):
    choices: int
    kendall_tau_b: float
    regret: float
    pairs: int
    pairs_in_order: int


class ValidationScoreboardOutliers(TypedDict):
    set: str
    case: str
    metric: str
    error: float
    cause: str


class ValidationScoreboard(TypedDict):
    time: list[ValidationScoreboardTime]
    memory: list[ValidationScoreboardTime]
    relations: list[ValidationScoreboardRelations]
    layouts: ValidationScoreboardLayouts
    outliers: list[ValidationScoreboardOutliers]


class Validation(TypedDict):
    schema: Literal["rehearse.validation/2"]
    answer: str
    files: list[ValidationFiles]
    relative_errors: list[ValidationRelativeErrors]
    staleness_differences: list[ValidationRelativeErrors]
    accuracy: list[ValidationAccuracy]
    failures: list[ValidationFailures]
    settings: list[ValidationSettings]
    rankings: list[ValidationRankings]
    fits: list[ValidationFits]
    fits_reliability: list[ValidationFitsReliability]
    coverage: ValidationFilesCasesMetricsCurve
    scoreboard: ValidationScoreboard
    failed: int


class CurvesFurther(TypedDict):
    share: float
    interval: list[float]


class CurvesRuns(TypedDict):
    file: str
    source: str
    seed: int
    staleness: float
    accuracy: float
    failed: bool


class Curves(TypedDict):
    schema: Literal["rehearse.curves/1"]
    description: str
    model: str
    dataset: str
    workers: int
    batch: int
    learning_rate: float
    momentum: float
    verdict: str
    failed: ValidationSettingsRealFailed
    median: float
    mean: float
    standard_error: float | None
    further: CurvesFurther | None
    runs: list[CurvesRuns]


class LossLaw(TypedDict):
    E: float
    A: float
    alpha: float
    B: float
    beta: float
    deviation: float


class LossSmallest(TypedDict):
    parameters: float
    tokens: float
    loss: float


class Loss(TypedDict):
    schema: Literal["rehearse.loss/1"]
    answer: str
    parameters: float
    tokens: float
    loss: float
    loss_interval: list[float]
    compute_ratio: float
    slope: float
    law: LossLaw
    runs: int
    smallest: LossSmallest
    largest: LossSmallest


class MeasuredParts(TypedDict):
    kind: str
    name: str
    time_s: float
    spread: float
    in_a_step: float


class Measured(TypedDict):
    schema: Literal["rehearse.measured/1"]
    answer: str
    name: str
    command: str
    device: str
    libtorch: str
    model: str
    precision: str
    batch: int
    parts: list[MeasuredParts]


class MeasuredComparisonFirst(TypedDict):
    answer: str
    name: str
    command: str
    device: str
    libtorch: str
    model: str
    precision: str
    batch: int


class MeasuredComparisonChanges(TypedDict):
    kind: str
    name: str
    first_s: float | None
    second_s: float | None
    change_s: float
    first_spread: float
    second_spread: float
    beyond_spread: bool


class MeasuredComparison(TypedDict):
    schema: Literal["rehearse.measured_comparison/1"]
    answer: str
    first: MeasuredComparisonFirst
    second: MeasuredComparisonFirst
    changes: list[MeasuredComparisonChanges]


class KernelComparisonOperators(TypedDict):
    op: str
    time_s: float
    traced_s: float
    ratio: float | None


class KernelComparisonKernels(TypedDict):
    op: str
    shapes: str
    verdict: str
    calls: float
    traced_calls: float
    time_s: float
    traced_s: float
    ratio: float | None


class KernelComparison(TypedDict):
    schema: Literal["rehearse.kernel_comparison/1"]
    scenario: str
    model: str
    trace: str
    device: str
    steps: int
    time_s: float
    traced_s: float
    traced_optimizer_s: float
    traced_sharding_s: float
    matched_share: float
    matched_shapes_share: float
    other_products: list[str]
    operators: list[KernelComparisonOperators]
    kernels: list[KernelComparisonKernels]


class ImportedMapped(TypedDict):
    key: str
    value: str
    means: str


class Imported(TypedDict):
    schema: Literal["rehearse.imported/1"]
    what: str
    scenario: str
    mapped: list[ImportedMapped]
    no_effect: list[ImportedMapped]
    left: list[ImportedMapped]
    unknown: list[ImportedMapped]
    cannot: list[ImportedMapped]
