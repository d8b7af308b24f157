"""Golden config.json files of transformers for tests/config, and a check of haul's own.

    config_huggingface.py write tests/config/huggingface
    config_huggingface.py load CONFIG.json...

`write` makes for each case NAME.json, as transformers saves it or in the spelling of older
versions, and NAME.expected.json with what transformers understood, under haul's names.
`load` builds the model of each file and prints its parameters.
"""

import json
import sys
from pathlib import Path

import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, LlamaConfig

LLAMA = dict(
    vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
    num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
    architectures=["LlamaForCausalLM"],
)  # fmt: skip
LLAMA3_ROPE = dict(
    rope_type="llama3", factor=4.0, low_freq_factor=1.5, high_freq_factor=5.0,
    original_max_position_embeddings=16,
)  # fmt: skip
GPT2 = dict(
    vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=24,
    architectures=["GPT2LMHeadModel"],
)  # fmt: skip


def cases():
    yield "llama2", LlamaConfig(**{**LLAMA, "num_key_value_heads": None}).to_dict()
    yield "llama3", LlamaConfig(
        **LLAMA, rope_parameters={**LLAMA3_ROPE, "rope_theta": 500000.0}, tie_word_embeddings=True,
        rms_norm_eps=1e-5, head_dim=10, attention_dropout=0.25,
    ).to_dict()  # fmt: skip
    yield "llama_bias", LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True).to_dict()
    yield "llama3_old_spelling", {
        **LLAMA, "model_type": "llama", "rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE,
        "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "pretraining_tp": 1,
    }  # fmt: skip
    yield "llama_all_defaults", {"model_type": "llama"}
    yield "gpt2", GPT2Config(**GPT2).to_dict()
    yield "gpt2_exact_gelu", GPT2Config(
        **GPT2, activation_function="gelu", n_inner=72, layer_norm_epsilon=1e-6,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.2, tie_word_embeddings=False,
    ).to_dict()  # fmt: skip
    yield "gpt2_all_defaults", {"model_type": "gpt2"}


def expected_llama(config):
    rope = config.rope_parameters
    return {
        "num_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "ffn_hidden_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_query_groups": config.num_key_value_heads,
        "group_query_attention": config.num_key_value_heads != config.num_attention_heads,
        "kv_channels": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "position_embedding_type": "rope",
        "rotary_base": rope["rope_theta"],
        "use_rope_scaling": rope["rope_type"] == "llama3",
        "rope_scaling_factor": rope.get("factor", 8.0),
        "rope_low_freq_factor": rope.get("low_freq_factor", 1.0),
        "rope_high_freq_factor": rope.get("high_freq_factor", 4.0),
        "rope_original_max_position_embeddings": rope.get("original_max_position_embeddings", 8192),
        "normalization": "RMSNorm",
        "norm_epsilon": config.rms_norm_eps,
        "swiglu": True,
        "openai_gelu": False,
        "disable_bias_linear": not config.mlp_bias,
        "add_qkv_bias": config.attention_bias,
        "hidden_dropout": 0.0,
        "attention_dropout": config.attention_dropout,
    }


def expected_gpt2(config):
    return {
        "num_layers": config.n_layer,
        "hidden_size": config.n_embd,
        "ffn_hidden_size": config.n_inner or 4 * config.n_embd,
        "num_attention_heads": config.n_head,
        "num_query_groups": config.n_head,
        "group_query_attention": False,
        "kv_channels": config.n_embd // config.n_head,
        "max_position_embeddings": config.n_positions,
        "position_embedding_type": "learned_absolute",
        "normalization": "LayerNorm",
        "norm_epsilon": config.layer_norm_epsilon,
        "swiglu": False,
        "openai_gelu": config.activation_function == "gelu_new",
        "disable_bias_linear": False,
        "add_qkv_bias": True,
        "hidden_dropout": config.resid_pdrop,
        "attention_dropout": config.attn_pdrop,
    }


def write(directory):
    for name, content in cases():
        path = Path(directory, f"{name}.json")
        path.write_text(json.dumps(content, indent=1) + "\n")
        config = AutoConfig.for_model(**content)
        common = {
            "vocab_size": config.vocab_size,
            "padded_vocab_size": config.vocab_size,
            "init_method_std": config.initializer_range,
            "untie_embeddings_and_output_weights": not config.tie_word_embeddings,
        }
        family = expected_llama if config.model_type == "llama" else expected_gpt2
        path = Path(directory, f"{name}.expected.json")
        path.write_text(json.dumps({**common, **family(config)}, indent=1) + "\n")


def load(path):
    config = AutoConfig.for_model(**json.loads(Path(path).read_text()))
    model = AutoModelForCausalLM.from_config(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{path}: {type(model).__name__} of {parameters} parameters ({transformers.__version__})")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        for argument in sys.argv[2:]:
            load(argument)
