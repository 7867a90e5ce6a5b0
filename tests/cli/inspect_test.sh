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
equals "$(outrider inspect stories.gguf --json)" "$(OUTRIDER_JSON=1 outrider inspect stories.gguf)"

fails 1 'nothing.gguf: ' outrider inspect nothing.gguf
head -c 1000 stories.gguf >short.gguf
fails 1 'short.gguf: ' outrider inspect short.gguf
echo 'not a model' >text.gguf
fails 1 'text.gguf: ' outrider inspect text.gguf
mkdir empty
fails 1 'empty: ' outrider inspect empty
