# calibrate-exits and evaluate-exits as a user runs them, on exits that nobody has trained. (A start takes a second where
# libtorch is linked, so there are few.)
#   exits_commands_test.sh OUTRIDER_ADAPTERS TOOLS WORK DATA
. "$(dirname "$0")/../cli/lib.sh"

adapters() { "$OUTRIDER" "$@"; }
"$TOOLS/damaged_model" stories.gguf 0.1 draft.gguf
"$TOOLS/identity_exits" stories.gguf exits.gguf 150
for _ in 1 2 3; do cat "$DATA/models/stories260k/expected_greedy_200.txt"; done >text.txt
files=(--target stories.gguf --draft draft.gguf --exits exits.gguf --threads 1)

# Too little text for a fit is enough for a look.
adapters evaluate-exits "${files[@]}" text.txt --passes 200 --csv exits.csv --layers-svg layers.svg \
  --reliability-svg reliability.svg >table.txt 2>err.txt
contains "$(cat table.txt)" 'sampled, 2'
contains "$(cat table.txt)" 'The exit after layer 3 is not calibrated: its own doubt stands in.'
equals 11 "$(wc -l <exits.csv)" # a head, and four exits and all of them in each mode
contains "$(head -1 layers.svg)" '<svg'
contains "$(head -1 reliability.svg)" '<svg'
fails 1 'text.txt: too little text' adapters calibrate-exits "${files[@]}" text.txt --out out.gguf
contains "$(cat err.txt)" 'and 500 are needed'
[ ! -e out.gguf ] || fail 'wrote exits without a calibration'

# What is no good is named.
: >empty.txt
fails 1 'empty.txt: holds no text' adapters calibrate-exits "${files[@]}" empty.txt --out out.gguf
fails 1 'nowhere' adapters evaluate-exits "${files[@]}" text.txt --csv nowhere/exits.csv
