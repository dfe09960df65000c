#!/usr/bin/env python3
"""The most that a forward pass under torch.no_grad holds, by PyTorch itself, without a GPU.

transformers' own Llama runs on fake CPU tensors (FakeTensorMode); each storage counts from its
making to its end, rounded to 512 bytes as the caching allocator does. Attention is cuDNN's, as torch
picks it on Hopper. Writes a line for each batch and sequence: bytes beside the parameters.
"""
import sys
import weakref

import torch
import transformers.masking_utils
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM


class Live(TorchDispatchMode):
    """Bytes of the storages that operators have made and that somebody still holds."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.known = {}

    def end(self, key):
        self.now -= self.known.pop(key, 0)

    def add(self, value):
        if isinstance(value, (list, tuple)):
            for one in value:
                self.add(one)
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self.known or storage.nbytes() == 0:
            return
        self.known[key] = (storage.nbytes() + 511) // 512 * 512
        weakref.finalize(storage, self.end, key)
        self.now += self.known[key]
        self.most = max(self.most, self.now)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.add(made)
        return made


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    """cuDNN's, which needs no copies of keys and values for grouped heads; without a backward it
    keeps no sums of exponents."""
    return torch.ops.aten._scaled_dot_product_cudnn_attention(
        query, key, value, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal, False,
        scale=scale)[0]


# It would look at the values of positions, which fake tensors lack, and then make a mask.
transformers.masking_utils.find_packed_sequence_indices = lambda *given, **named: None
F.scaled_dot_product_attention = attention
torch.nn.functional.scaled_dot_product_attention = attention


def peak(config, batch, sequence):
    with FakeTensorMode(), torch.device("cpu"):
        network = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval()
        tokens = torch.empty(batch, sequence, dtype=torch.int64)
        live = Live()
        for held in (*network.parameters(), *network.buffers(), tokens):
            live.known[held.untyped_storage()._cdata] = 0  # a view of it takes nothing
        with live, torch.no_grad():
            loss = network(input_ids=tokens, labels=tokens, use_cache=False).loss
        del loss
    return live.most


def main():
    print("hidden,layers,heads,kv_heads,feed_forward,vocabulary,batch,sequence,bytes")
    for hidden, layers, heads, kv, width, words in (
            (512, 4, 8, 8, 1536, 32000), (1024, 6, 16, 4, 2816, 128256),
            (2048, 4, 16, 8, 8192, 2048)):
        config = LlamaConfig(hidden_size=hidden, num_hidden_layers=layers,
                             num_attention_heads=heads, num_key_value_heads=kv,
                             intermediate_size=width, vocab_size=words,
                             tie_word_embeddings=False, attn_implementation="sdpa")
        for batch, sequence in ((1, 512), (1, 4096), (4, 1024), (16, 512)):
            print(hidden, layers, heads, kv, width, words, batch, sequence,
                  peak(config, batch, sequence), sep=",")


if __name__ == "__main__":
    sys.exit(main())
