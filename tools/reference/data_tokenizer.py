#!/usr/bin/env python3
"""Writes the tokenizer goldens of tests/data with the Hugging Face `tokenizers` library:

corpus.txt           made-up text, documents separated by "%" lines
tokenizer_gpt2.json  byte-level BPE of 1000 ids trained on it, GPT-2's pattern
tokenizer_split.json the same text, 400 ids, Llama 3's pattern, begin-of-text, ignore_merges
gpt2_vocab.json      the same text, 600 ids and <|endoftext|> last, as GPT-2's vocab.json
gpt2_merges.txt      its merges; both files are read by GPT2Tokenizer of `transformers`
tokenizer_ids.json   ids of texts that are easy to get wrong

usage: data_tokenizer.py tests/data
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers,
                        processors, trainers)
from transformers import GPT2Tokenizer

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

ODD = [
    "naïve", "Straße", "Ελλάδα", "привет", "世界", "日本語", "🙂", "👩‍👩‍👧", "e\u0301", "№",
    "½", "don't", "we'll", "IT'S", "x86_64", "3.14159", "1,000,000", "foo(bar)[0];",
    "--", "...", "\u00a0", "\u3000", "\u200b", "\u180e", "٣٤", "हिन्दी", "\u2028",
]

TEXTS = [
    "", " ", "a", "hello world", "  two  spaces ", "tabs\tand\n\nlines\r\nCRLF\r\n\r\n",
    "trailing   ", "\n\n\n", "   \n  x", "it's we'll THEY'RE i'd", "'s't're",
    "12345 6 7890", "1234abc567", "naïve café Straße", "Ελλάδα привет мир", "世界 你好，世界！",
    "日本語テキスト", "🙂🙃 👩‍👩‍👧‍👦 🏳️‍🌈", "e\u0301 combining", "zero\u200bwidth",
    "nbsp\u00a0\u00a0x", "\u3000ideographic", "mongolian\u180e\u180evowel",
    "a\u180e.b  \u180e", "sep\u001c\u001fx", "nel\u0085\u0085x", "line\u2028sep",
    "<|endoftext|>", "a<|endoftext|>b<|endoftext|><|endoftext|> c", "<|endoftext|",
    "<|end<|endoftext|>", "<|begin|>x", "x<|end_of_text|>y<|end",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 80, " " * 300 + "x",
    "def f(x):\n    return x**2  # square\n", "{\"key\": [1, 2.5e-3, null]}",
    "\x00\x01\x7f", "\ufeffbom", "½ ² Ⅷ ٣", "हिन्दी ไทย עברית العربية",
    "\U0010ffff\ue000", "ﬁ ligature ǅ",
]


def make_corpus():
    rng = random.Random(7)
    syllables = [a + b for a in "b c d f g h l m n p r s t v w st tr ch".split()
                 for b in ["a", "e", "i", "o", "u", "ou", "er", "in", "an", "y"]]
    words = ["".join(rng.choices(syllables, k=rng.choice([1, 1, 2, 2, 3]))) for _ in range(700)]
    weights = [1 / (i + 1) for i in range(len(words))]
    documents = []
    for _ in range(180):
        text = ""
        for _ in range(rng.randint(1, 6)):
            sentence = rng.choices(words, weights, k=rng.randint(2, 12))
            if rng.random() < 0.3:
                sentence[rng.randrange(len(sentence))] = rng.choice(ODD)
            sentence[0] = sentence[0].capitalize()
            text += " ".join(sentence)
            text += rng.choice([". ", "! ", "?\n", ".\n", ",\r\n", ";\n\n", ":\n\t- "])
        documents.append(text.rstrip("\r\n") + "\n")
    return documents


def make_gpt2(documents):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def make_split(documents):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=400, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    # Tokens that no merge makes: only ignore_merges gives them.
    described = json.loads(tokenizer.to_str())
    del described["model"]["merges"][-60:]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t in ["<|begin|>", "<|end_of_text|>", "<|end"]])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[
            ("<|begin|>", tokenizer.token_to_id("<|begin|>"))])])
    return tokenizer


def make_pair(documents, out):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=600, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    vocab = {**model["vocab"], "<|endoftext|>": 600}
    paths = out / "gpt2_vocab.json", out / "gpt2_merges.txt"
    paths[0].write_text(json.dumps(vocab, separators=(",", ":")) + "\n")
    lines = ["#version: 0.2"] + [" ".join(merge) for merge in model["merges"]]
    paths[1].write_text("\n".join(lines) + "\n")
    return GPT2Tokenizer(vocab=str(paths[0]), merges=str(paths[1]))


def main():
    out = Path(sys.argv[1])
    documents = make_corpus()
    (out / "corpus.txt").write_bytes("%\n".join(documents).encode())
    texts = TEXTS + documents[::12]
    goldens = {}
    for name, tokenizer in [("gpt2", make_gpt2(documents)), ("split", make_split(documents))]:
        tokenizer.save(str(out / f"tokenizer_{name}.json"), pretty=False)
        goldens[name] = [{"text": t, "ids": tokenizer.encode(t).ids} for t in texts]
    pair = make_pair(documents, out)
    goldens["pair"] = [{"text": t, "ids": pair(t)["input_ids"]} for t in texts]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    goldens["pieces"] = [{"text": t, "pieces": [p for p, _ in byte_level.pre_tokenize_str(t)]}
                         for t in TEXTS]
    path = out / "tokenizer_ids.json"
    path.write_text(json.dumps(goldens, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
