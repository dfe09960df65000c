"""A small network of each family of transformers that the program reads: two layers each."""
import json
from dataclasses import dataclass, field

from transformers import CONFIG_MAPPING

DIMENSIONS = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
              "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64,
              "vocab_size": 8192, "max_position_embeddings": 4096}
EXPERTS = {"moe_intermediate_size": 512, "num_experts": 16, "num_local_experts": 16,
           "n_routed_experts": 16, "num_experts_per_tok": 4}
LATENT = {"q_lora_rank": None, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
          "v_head_dim": 64, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
          "num_key_value_heads": 16}
ENCODER = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
           "num_attention_heads": 16, "vocab_size": 8192, "hidden_dropout_prob": 0.0,
           "attention_probs_dropout_prob": 0.0}
NARROW_EXPERTS = {"intermediate_size": 512}
ROUTED = {"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}


@dataclass
class Family:
    """`own`: fields beside DIMENSIONS and EXPERTS; `only`: fields in their place."""

    own: dict = field(default_factory=dict)
    only: dict | None = None
    head: str = "causal"
    eager: bool = False
    lora: list = field(default_factory=lambda: ["q_proj", "v_proj"])
    units: str = "layers.*"

    @property
    def size(self) -> tuple:
        return (4, 2048) if self.head == "causal" else (8, 1024)


def heads(layers: str, hidden: str, count: str, **more) -> dict:
    return {layers: 2, hidden: 1024, count: 16, "vocab_size": 8192, **more}


FAMILIES = {name: Family() for name in (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "olmo2", "olmo3", "granite",
    "smollm3", "seed_oss", "glm4", "ernie4_5", "exaone4", "hunyuan_v1_dense", "phi", "starcoder2",
    "stablelm", "cohere", "olmo", "nemotron", "qwen2_moe", "qwen3_moe", "ernie4_5_moe", "apertus",
    "arcee", "ministral", "cohere2")}
FAMILIES |= {
    "phi3": Family(lora=["qkv_proj"]),
    "gemma2": Family(eager=True),
    "mixtral": Family(NARROW_EXPERTS), "olmoe": Family(NARROW_EXPERTS),
    "granitemoe": Family(NARROW_EXPERTS),
    "deepseek_v2": Family(LATENT | {"topk_method": "greedy", "head_dim": None}, lora=["o_proj"]),
    "deepseek_v3": Family(LATENT | {"head_dim": None}, lora=["o_proj"]),
    "glm4_moe": Family(ROUTED), "dots1": Family(ROUTED | {"n_shared_experts": 1}), "gpt_oss": Family(eager=True),
    "solar_open": Family({"n_group": 1, "topk_group": 1}),
    "glm4_moe_lite": Family(LATENT | {"head_dim": None, "mlp_layer_types": ["dense", "sparse"]},
                            lora=["o_proj"]),
    "minimax_m2": Family(NARROW_EXPERTS), "hunyuan_v1_moe": Family(NARROW_EXPERTS | {"moe_topk": 4}),
    "phimoe": Family(NARROW_EXPERTS),
    "lfm2": Family({"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}),
    "gpt2": Family(only=heads("n_layer", "n_embd", "n_head", n_positions=4096, resid_pdrop=0,
                              embd_pdrop=0, attn_pdrop=0), lora=[], units="h.*"),
    "gpt_bigcode": Family(only=heads("n_layer", "n_embd", "n_head", n_positions=4096, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0), lora=[], units="h.*"),
    "gptj": Family(only=heads("n_layer", "n_embd", "n_head", n_positions=4096, rotary_dim=32,
                              resid_pdrop=0, embd_pdrop=0, attn_pdrop=0), eager=True,
                   units="h.*"),
    "modernbert": Family(only=ENCODER | {"max_position_embeddings": 4096}, head="masked", lora=[]),
    "gpt_neox": Family(only=DIMENSIONS, lora=["query_key_value"]),
    "opt": Family(only=heads("num_hidden_layers", "hidden_size", "num_attention_heads",
                             ffn_dim=4096, word_embed_proj_dim=1024, dropout=0.0,
                             max_position_embeddings=4096)),
    "bloom": Family(only=heads("n_layer", "hidden_size", "n_head"), eager=True,
                    lora=["query_key_value"], units="h.*"),
    "falcon": Family(only=heads("num_hidden_layers", "hidden_size", "num_attention_heads",
                                new_decoder_architecture=True, num_kv_heads=8),
                     lora=["query_key_value"]),
    "mpt": Family(only=heads("n_layers", "d_model", "n_heads", expansion_ratio=4,
                             max_seq_len=4096), eager=True, lora=["Wqkv"], units="h.*"),
    "t5": Family(only=heads("num_layers", "d_model", "num_heads", d_kv=64, d_ff=4096,
                            dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0),
                 head="seq2seq", lora=[], units="*coder.[01]"),
    "mt5": Family(only=heads("num_layers", "d_model", "num_heads", d_kv=64, d_ff=4096,
                             dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0),
                  head="seq2seq", lora=[], units="*coder.[01]"),
    "bert": Family(only=ENCODER | {"max_position_embeddings": 4096}, head="masked", lora=[],
                   units="layer.*"),
    "roberta": Family(only=ENCODER | {"max_position_embeddings": 4098}, head="masked", lora=[],
                      units="layer.*"),
    "distilbert": Family(only={"dim": 1024, "hidden_dim": 4096, "n_layers": 2, "n_heads": 16,
                               "vocab_size": 8192, "max_position_embeddings": 4096, "dropout": 0.0,
                               "attention_dropout": 0.0}, head="masked", lora=[], units="layer.*"),
}


def config_of(name: str) -> tuple:
    """transformers' config, and the fields of its config.json."""
    family, kind = FAMILIES[name], CONFIG_MAPPING[name]
    usual = kind()
    fields = family.only
    if fields is None:
        fields = {key: value for key, value in (DIMENSIONS | EXPERTS).items() if hasattr(usual, key)}
        fields |= family.own
        fields = {key: value for key, value in fields.items()
                  if value is not None or key == "q_lora_rank"}
    fields = dict(fields)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        value = getattr(usual, key, None)
        if isinstance(value, list) or (isinstance(value, int) and value >= 8192):
            fields.setdefault(key, 1)
    config = kind(**fields)
    raw = json.loads(config.to_json_string(use_diff=True))
    raw["model_type"] = name
    return config, raw
