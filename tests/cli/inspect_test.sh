. "$(dirname "$0")/lib.sh"

table=$(outrider inspect stories.gguf)
contains "$table" 'llama (stories260k)'
contains "$table" 'GGUF v3'
contains "$table" '260 k in 47 tensors'
contains "$table" '8 of 8, 4 for keys and values'
contains "$table" 'blk.0 .. blk.4'
contains "$table" 'SentencePiece BPE'
contains "$table" '</s> (2)'

outrider inspect stories.gguf --json >summary.json
python3 - <<'PYTHON'
import json
summary = json.load(open("summary.json"))
assert summary["architecture"] == "llama"
assert summary["parameter_count"] == 260032, summary["parameter_count"]
assert summary["hyperparameters"]["context_length"] == 512
assert summary["types"] == [{"type": "F32", "tensor_count": 47, "element_count": 260032, "bytes": 1040128}]
assert sum(layer["bytes"] for layer in summary["layers"]) == summary["memory"]["weight_bytes"] == 1040128
# 5 blocks, 4 heads of 8 + 8 values, 2 bytes each, 512 tokens
assert summary["memory"]["kv_bytes"] == 5 * 4 * 16 * 2 * 512
assert summary["tokenizer"]["token_count"] == 512
PYTHON
# All but what is measured anew each time.
settled() { grep -vE '"(available_bytes|bytes_per_second|tokens_per_second_max)"'; }
equals "$(outrider inspect stories.gguf --json | settled)" "$(OUTRIDER_JSON=1 outrider inspect stories.gguf | settled)"

# What becomes of it here, and what of its folder goes with it.
contains "$table" 'runs            yes'
contains "$table" 'all have kernels'
contains "$table" 'tokens/s'
contains "$(outrider inspect "$DATA/models/t5")" 'runs            no: '
mkdir folder
"$TOOLS/random_model" 2m q8_0 folder/other.gguf
outrider convert stories.gguf --out folder/draft.gguf --type q4_0 >/dev/null
cp stories.gguf folder/target.gguf
"$TOOLS/identity_exits" folder/target.gguf folder/target.exits.gguf 200
contains "$(outrider inspect folder/target.gguf)" 'drafts          draft.gguf'
contains "$(outrider inspect folder/target.gguf)" 'exits           target.exits.gguf'
# The same of a directory: what is in it and what is beside it, other directories too.
cp -r "$DATA/models/llama" "$DATA/models/mistral" folder
cp "$DATA"/models/llama/tokenizer*.json folder/mistral
outrider convert folder/llama --out folder/small.gguf --type q4_0 >/dev/null
"$TOOLS/identity_exits" folder/llama folder/llama/exits.gguf 20
for name in folder/llama folder/llama/ ./folder/llama; do
  contains "$(outrider inspect "$name")" 'drafts          mistral, small.gguf'
  contains "$(outrider inspect "$name")" 'exits           exits.gguf'
done
contains "$(outrider inspect folder/target.exits.gguf)" 'of the model    stories260k'
outrider inspect folder/target.exits.gguf --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["target"]["layer_count"] == 5'
fails 1 'target.exits.gguf: holds exits of a model' outrider inspect folder/target.exits.gguf --weights

# What files say of themselves cannot steer a terminal.
python3 - <<'PYTHON'
data = open("stories.gguf", "rb").read()
assert data.count(b"stories260k") == 1
open("escape.gguf", "wb").write(data.replace(b"stories260k", b"\x1b[2Jabc\xc2\x9b1m"))
PYTHON
contains "$(outrider inspect escape.gguf)" '(\x1b[2Jabc\xc2\x9b1m)'
equals '' "$(outrider inspect escape.gguf --json | tr -d '\n -~')"
"$OUTRIDER" run --model escape.gguf --prompt x --max-tokens 1 --verbose >/dev/null 2>err.txt
equals '' "$(tr -d '\n -~' <err.txt)"

# What cannot be run is described as far as it can be, and then why not: an architecture that is not here, keys that
# change what is computed, and a tokenizer that is cut in a way nobody knows.
outrider convert "$DATA/models/llama" --out bytes.gguf --type f16 >/dev/null
python3 - <<'PYTHON'
import struct
def text(value):
    return struct.pack("<IQ", 8, len(value)) + value
data = open("stories.gguf", "rb").read()
key = b"general.architecture"
assert data.count(key + text(b"llama")) == 1
other = data.replace(key + text(b"llama"), key + text(b"mamba")).replace(b"llama.", b"mamba.")
open("mamba.gguf", "wb").write(other)
data = open("bytes.gguf", "rb").read()
key = b"tokenizer.ggml.pre"
assert data.count(key + text(b"gpt-2")) == 1
open("cut.gguf", "wb").write(data.replace(key + text(b"gpt-2"), key + text(b"gpt-9")))
PYTHON
table=$(outrider inspect mamba.gguf)
contains "$table" 'architecture    mamba (stories260k)'
contains "$table" '260 k in 47 tensors'
contains "$table" 'context         512 tokens'
contains "$table" 'blk.0 .. blk.4'
contains "$table" 'SentencePiece BPE'
contains "$table" 'weights         1016 KiB'
contains "$table" 'runs            no: '
contains "$table" 'its Mamba layers keep a recurrent state'
[[ "$table" != *'KV cache'* ]] || fail 'keys and values of layers that have none'
fails 1 'its Mamba layers keep a recurrent state' outrider inspect mamba.gguf --weights
table=$(outrider inspect cut.gguf)
contains "$table" 'architecture    llama (llama)'
contains "$table" 'KV cache'
contains "$table" 'cannot be read: cut.gguf: tokenizer.ggml.pre is "gpt-9", which is not supported'
contains "$table" 'runs            no: cut.gguf: tokenizer.ggml.pre is "gpt-9"'
for name in mamba cut; do outrider inspect $name.gguf --json >$name.json; done
python3 - <<'PYTHON'
import json
mamba, cut = json.load(open("mamba.json")), json.load(open("cut.json"))
assert mamba["architecture"] == "mamba" and mamba["hyperparameters"]["block_count"] == 5
assert not mamba["prospects"]["runs"] and "recurrent" in mamba["prospects"]["why_not"]
assert not cut["prospects"]["runs"] and cut["tokenizer"] is None and "gpt-9" in cut["tokenizer_trouble"]
PYTHON

# A weight that is no number: who meets it is told the file, and --weights names the tensor.
python3 - <<'PYTHON'
import struct
data = bytearray(open("stories.gguf", "rb").read())
data[-4:] = struct.pack("<f", float("nan"))
open("nan.gguf", "wb").write(data)
PYTHON
fails 1 'nan.gguf (stories260k): no token can be chosen for position ' outrider run --model nan.gguf --prompt x --max-tokens 1
contains "$(cat err.txt)" 'outrider inspect --weights'
last=$(outrider inspect nan.gguf --weights | tail -1)
contains "$last" ' is not a number'
contains "$last" '.weight: row '
equals '  none' "$(outrider inspect stories.gguf --weights | tail -1)"
outrider inspect nan.gguf --weights --json |
  python3 -c 'import json, sys; assert len(json.load(sys.stdin)["unsound_weights"]) == 1'

fails 1 'nothing.gguf: ' outrider inspect nothing.gguf
head -c 1000 stories.gguf >short.gguf
fails 1 'short.gguf: ' outrider inspect short.gguf
echo 'not a model' >text.gguf
fails 1 'text.gguf: ' outrider inspect text.gguf
mkdir empty
fails 1 'empty: ' outrider inspect empty
