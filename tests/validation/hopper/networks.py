"""Hugging Face's configurations that record.py trains; small ones for a look at it on a CPU."""

LLAMA_3 = {"vocab_size": 128256, "rope_theta": 500000.0, "max_position_embeddings": 8192}


def llama(quick, layers, hidden, feed_forward, heads, kv_heads, vocab_size, **more):
    import transformers as T
    if quick:  # heads are as wide as before
        layers, heads, kv_heads, hidden = 2, 4, min(4, kv_heads), 4 * hidden // heads
        feed_forward, vocab_size = 2 * hidden, 512
    return T.LlamaConfig(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=feed_forward, num_attention_heads=heads,
                         num_key_value_heads=kv_heads, vocab_size=vocab_size, **more)


def gpt2(quick, layers, heads, hidden, dropout):
    import transformers as T
    return T.GPT2Config(n_layer=2 if quick else layers, n_head=heads, n_embd=hidden, resid_pdrop=dropout, embd_pdrop=dropout,
                        attn_pdrop=dropout)


def bert_large(quick):
    import transformers as T
    return T.BertConfig(num_hidden_layers=2 if quick else 24, num_attention_heads=16, hidden_size=1024, intermediate_size=4096)


def qwen3_moe(quick):
    import transformers as T
    names = ("num_hidden_layers", "hidden_size", "moe_intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
             "num_experts", "num_experts_per_tok", "vocab_size")
    sizes = (1, 256, 64, 4, 2, 64, 8, 2, 512) if quick else (4, 2048, 768, 32, 4, 128, 128, 8, 151936)
    return T.Qwen3MoeConfig(intermediate_size=6144, norm_topk_prob=True, **dict(zip(names, sizes)))


def qwen3(quick):
    import transformers as T
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    sizes = (2, 256, 512, 4, 2, 64, 512) if quick else (28, 2048, 6144, 16, 8, 128, 151936)
    return T.Qwen3Config(tie_word_embeddings=True, **dict(zip(names, sizes)))


def gemma2(quick):
    import transformers as T
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    sizes = (2, 256, 512, 4, 2, 64, 512) if quick else (26, 2304, 9216, 8, 4, 256, 256000)
    return T.Gemma2Config(sliding_window=4096, **dict(zip(names, sizes)))


def mixtral(quick):
    import transformers as T
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "num_local_experts",
             "num_experts_per_tok", "vocab_size")
    sizes = (1, 256, 512, 4, 2, 4, 2, 512) if quick else (2, 4096, 14336, 32, 8, 8, 2, 32000)
    return T.MixtralConfig(**dict(zip(names, sizes)))


def deepseek(quick):
    """DeepSeek-V2-Lite's sizes, three layers of 27, the first of them dense."""
    import transformers as T
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads",
             "num_key_value_heads", "n_routed_experts", "num_experts_per_tok", "n_shared_experts", "vocab_size")
    sizes = (2, 256, 512, 64, 4, 4, 8, 2, 1, 512) if quick else (3, 2048, 10944, 1408, 16, 16, 64, 6, 2, 102400)
    return T.DeepseekV2Config(first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
                              v_head_dim=128, n_group=1, topk_group=1, topk_method="greedy", **dict(zip(names, sizes)))


# By name, from whether it is for a look on a CPU, and the dropout.
CONFIGS = {
    "gpt2": lambda quick, dropout: gpt2(quick, 12, 12, 768, dropout),
    "gpt2_xl": lambda quick, dropout: gpt2(quick, 48, 25, 1600, dropout),
    "bert_large": lambda quick, _: bert_large(quick),
    "llama_1b": lambda quick, _: llama(quick, 16, 2048, 8192, 32, 8, tie_word_embeddings=True, **LLAMA_3),
    "llama_1b_4l": lambda quick, _: llama(quick, 4, 2048, 8192, 32, 8, tie_word_embeddings=True, **LLAMA_3),
    "llama_8b": lambda quick, _: llama(quick, 32, 4096, 14336, 32, 8, **LLAMA_3),
    "llama_70b_8l": lambda quick, _: llama(quick, 8, 8192, 28672, 64, 8, **LLAMA_3),
    "llama2_7b": lambda quick, _: llama(quick, 32, 4096, 11008, 32, 32, vocab_size=32000),
    "moe_4l": lambda quick, _: qwen3_moe(quick),
    "qwen3_1_7b": lambda quick, _: qwen3(quick),
    "gemma2_2b": lambda quick, _: gemma2(quick),
    "mixtral_2l": lambda quick, _: mixtral(quick),
    "deepseek_v2_3l": lambda quick, _: deepseek(quick),
}
