. "$(dirname "$0")/lib.sh"

type_of() { outrider inspect "$1" --json | python3 -c '
import json, sys
types = json.load(sys.stdin)["types"]
print(" ".join(sorted(entry["type"] for entry in types)))'; }

# As stored: the same tensors, byte for byte, so converting twice changes nothing.
outrider convert stories.gguf --out again.gguf >/dev/null
outrider convert again.gguf --out thrice.gguf >/dev/null
cmp again.gguf thrice.gguf
equals F32 "$(type_of again.gguf)"

# Every type; rows of 64 and 172 are too short for the 256-blocks of Q4_K and others and, 172, for those of 32.
outrider convert stories.gguf --out f16.gguf --type f16 >/dev/null
equals 'F16 F32' "$(type_of f16.gguf)"
outrider convert stories.gguf --out bf16.gguf --type BF16 >/dev/null
equals 'BF16 F32' "$(type_of bf16.gguf)"
outrider convert stories.gguf --out q8_0.gguf --type q8_0 >/dev/null
equals 'F16 F32 Q8_0' "$(type_of q8_0.gguf)"
outrider convert stories.gguf --out q4_0.gguf --type q4_0 >/dev/null
equals 'F16 F32 Q4_0 Q8_0' "$(type_of q4_0.gguf)"
outrider convert stories.gguf --out q4_k.gguf --type q4_k >/dev/null
equals 'F16 F32 Q5_0 Q8_0' "$(type_of q4_k.gguf)"
outrider convert stories.gguf --out q5_k.gguf --type q5_k >/dev/null
equals 'F16 F32 Q5_1 Q8_0' "$(type_of q5_k.gguf)"
outrider convert stories.gguf --out iq4_xs.gguf --type iq4_xs >/dev/null
equals 'F16 F32 IQ4_NL Q8_0' "$(type_of iq4_xs.gguf)"

# The tokenizer comes along.
ids=$(outrider tokenize stories.gguf 'Once upon a time')
equals "$ids" "$(outrider tokenize q4_0.gguf 'Once upon a time')"

# A finished file, or none: no partial file is left behind, and an unwritable place is a sentence.
equals 0 "$(find . -name '*.partial' | wc -l)"
fails 1 'missing/x.gguf' outrider convert stories.gguf --out missing/x.gguf
fails 1 'choose another --out' outrider convert stories.gguf --out stories.gguf

# Nothing that is read is written over: shards, what lies in a directory, whatever the name it goes by.
cp -r "$DATA/models/llama" hf
before=$(md5sum hf/* | md5sum)
fails 1 'hf/model.safetensors: is of the model to be converted; choose another --out' outrider convert hf --out hf/model.safetensors
fails 1 'choose another --out' outrider convert hf --out hf/config.json
ln -s hf/model.safetensors soft
ln hf/model.safetensors hard
ln -s hf there
fails 1 'choose another --out' outrider convert hf --out soft
fails 1 'choose another --out' outrider convert hf --out hard
fails 1 'choose another --out' outrider convert hf --out there/tokenizer.json
equals "$before" "$(md5sum hf/* | md5sum)"
cp "$DATA"/gguf/split-0000?-of-00003.gguf .
fails 1 '' outrider convert split-00001-of-00003.gguf --out split-00002-of-00003.gguf
cmp split-00002-of-00003.gguf "$DATA/gguf/split-00002-of-00003.gguf"

# Ctrl-C and SIGTERM leave nothing, and what a killed process has left goes with the next.
"$TOOLS/random_model" 100m f32 large.gguf
for signal in INT TERM; do
  "$OUTRIDER" convert large.gguf --out stopped.gguf --type q4_k >out.txt 2>err.txt &
  pid=$!
  until [ -e stopped.gguf.$pid.partial ] || ! kill -0 $pid 2>/dev/null; do :; done
  kill -$signal $pid
  status=0
  wait $pid || status=$?
  equals 1 $status
  contains "$(tail -1 err.txt)" 'interrupted; nothing is written'
  equals '' "$(ls | grep stopped || true)"
done
touch -d '1 hour ago' orphan.gguf.12345.partial
outrider convert stories.gguf --out orphan.gguf >/dev/null
[ ! -e orphan.gguf.12345.partial ] || fail 'an orphan is still there'
rm large.gguf
head -c 500000 stories.gguf >short.gguf
fails 1 'short.gguf: ' outrider convert short.gguf --out y.gguf
[ ! -e y.gguf ] || fail 'a failed conversion left its output'
