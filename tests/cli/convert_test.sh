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
head -c 500000 stories.gguf >short.gguf
fails 1 'short.gguf: ' outrider convert short.gguf --out y.gguf
[ ! -e y.gguf ] || fail 'a failed conversion left its output'
