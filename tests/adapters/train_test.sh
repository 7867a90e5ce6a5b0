# Text to tokenizer to target to draft, as a user does it: the fifth argument is outrider-adapters.
. "$(dirname "$0")/../cli/lib.sh"
ADAPTERS=$5
TEXT=$DATA/text/christmas_angel.txt.gz

adapters() { "$ADAPTERS" "$@"; }

adapters train-tokenizer "$TEXT" --tokens 400 --out tokenizer.gguf --out tokenizer.json >said.txt
contains "$(cat said.txt)" '400 tokens and 143 merges from 1 documents'
zcat "$TEXT" >text.txt
zcat "$TEXT" | outrider tokenize tokenizer.gguf >ids.txt
equals "$(cat ids.txt)" "$(outrider tokenize tokenizer.json <text.txt)"
equals "$(cat text.txt)" "$(outrider detokenize tokenizer.gguf <ids.txt)"

fails 1 'give more text or ask for fewer' adapters train-tokenizer <(echo hello) --tokens 400 --out x.gguf
fails 1 '--out must end in .json' adapters train-tokenizer "$TEXT" --out x.txt
fails 1 'cannot open' adapters train-tokenizer none.txt --out x.gguf
fails 1 'holds no text' adapters train-tokenizer /dev/null --out x.gguf

# Where it was made without libtorch it says so, and that is all there is to test.
said=$(adapters train-lm 2>&1) || [[ "$said" != *'made without libtorch'* ]] || exit 0

recipe=(train-lm "$TEXT" --validation "$TEXT" --tokenizer tokenizer.gguf --embedding 64 --layers 2 --heads 2 --context 64
  --learning-rate 4e-3 --threads 1)
train() { adapters "${recipe[@]}" "$@" 2>log.txt; }

train --batch 16 --steps 50 --out target.gguf >said.txt
contains "$(cat said.txt)" 'target.gguf: '
[ ! -e target.gguf.checkpoint ] || fail 'a finished run left its checkpoint'
contains "$(cat target.svg)" '>validation</text>'
equals 51 "$(wc -l <target.csv)"

# Whoever only counts how frequent each token is cannot get below the entropy of those counts.
entropy=$(tr ' ' '\n' <ids.txt | sort | uniq -c | awk '{ n += $1; s += $1 * log($1) } END { print log(n) - s / n }')
loss=$(tail -1 target.csv | cut -d, -f6)
awk "BEGIN { exit !($loss < $entropy - 0.2) }" || fail "a loss of $loss is no better than counting, $entropy"

# Told to stop, it saves itself; the same command ends with the same bytes as if nothing had happened.
mkdir straight && train --batch 4 --steps 40 --type f32 --out straight/m.gguf >said.txt
# Its log is a file of its own: an older one's progress would stop it before it has begun.
"$ADAPTERS" "${recipe[@]}" --batch 4 --steps 40 --type f32 --out m.gguf >said.txt 2>stopped.txt &
pid=$!
until grep -qs 'training \[' stopped.txt || ! kill -0 $pid 2>/dev/null; do :; done
kill -TERM $pid 2>/dev/null || true
wait $pid || contains "$(cat stopped.txt)" 'saved to m.gguf.checkpoint; the same command goes on from there'
train --batch 4 --steps 40 --type f32 --out m.gguf >said.txt
cmp m.gguf straight/m.gguf || fail 'a run that was stopped came out differently'
cmp m.csv straight/m.csv || fail 'a run that was stopped has another loss curve'

said=$(outrider run --model target.gguf --prompt 'The Angel' --max-tokens 8 2>/dev/null)
[ -n "$said" ] || fail 'the trained model says nothing'

# The mean of a model with itself is that model.
adapters average-models m.gguf straight/m.gguf m.gguf --out straight/mean.gguf >said.txt
contains "$(cat said.txt)" 'straight/mean.gguf: '
mkdir mean && adapters average-models straight/mean.gguf m.gguf --out mean/m.gguf >said.txt
cmp m.gguf mean/m.gguf || fail 'the mean of a model with itself is another'
adapters average-models m.gguf target.gguf --out mean/both.gguf >said.txt
fails 1 'both.gguf: is one of the models; choose another --out' adapters average-models mean/both.gguf m.gguf --out mean/both.gguf
outrider convert m.gguf --out mean/q8_0.gguf --type q8_0 >said.txt
fails 1 'q8_0.gguf: tensor token_embd.weight is Q8_0; take the mean of' adapters average-models m.gguf mean/q8_0.gguf --out x.gguf
fails 1 'stories.gguf: has another shape than m.gguf' adapters average-models m.gguf stories.gguf --out x.gguf
tr e o <text.txt >other.txt
adapters train-tokenizer other.txt --tokens 400 --out other_tokenizer.gguf >said.txt
adapters train-lm "$TEXT" --tokenizer other_tokenizer.gguf --embedding 64 --layers 2 --heads 2 --context 64 --batch 1 --steps 1 \
  --out other.gguf >said.txt 2>log.txt
fails 1 'other.gguf: has another vocabulary than m.gguf' adapters average-models m.gguf other.gguf --out x.gguf
[ ! -e x.gguf ] || fail 'a mean that was refused left a file'

adapters distill-draft "$TEXT" --target target.gguf --prompts 40 --continuation-tokens 40 --embedding 32 --layers 1 --heads 2 \
  --context 64 --batch 8 --steps 8 --threads 1 --out draft.gguf >said.txt 2>log.txt
contains "$(cat said.txt)" 'have the same first choice for'
equals "$(ls draft*)" "$(printf 'draft.csv\ndraft.gguf\ndraft.svg')"
equals "$said" "$(outrider run --model target.gguf --draft draft.gguf --prompt 'The Angel' --max-tokens 8 2>/dev/null)"

adapters evaluate-draft "$TEXT" --target target.gguf --draft draft.gguf --prompts 6 --prompt-tokens 8 --reply-tokens 20 --csv \
  agreement.csv >said.txt
equals 5 "$(wc -l <agreement.csv)"
equals 'text,texts,tokens,agreed,accepted_of_2,accepted_of_4,accepted_of_8' "$(head -1 agreement.csv)"
# A target foresees itself: all of 2, of 4 and of 8, but not with other noise.
adapters evaluate-draft "$TEXT" --target target.gguf --draft target.gguf --prompts 6 --reply-tokens 20 >said.txt
contains "$(grep 'the same noise' said.txt)" '100.0 %  2.00  4.00  8.00'
[[ $(grep 'noise of its own' said.txt) != *'100.0 %'* ]] || fail 'other noise said the same'
fails 1 'another vocabulary than target.gguf' adapters evaluate-draft "$TEXT" --target target.gguf --draft stories.gguf
fails 1 'none.gguf' adapters evaluate-draft "$TEXT" --target target.gguf --draft none.gguf
fails 1 'another vocabulary than target.gguf' adapters distill-draft "$TEXT" --target target.gguf --init stories.gguf --out d.gguf
fails 1 'no multiple of --kv-heads 2' adapters train-lm "$TEXT" --tokenizer tokenizer.gguf --kv-heads 2 --out d.gguf
fails 1 'choose a multiple of 8' adapters train-lm "$TEXT" --tokenizer tokenizer.gguf --embedding 66 --heads 4 --out d.gguf
fails 1 'cannot be written' adapters train-lm "$TEXT" --tokenizer tokenizer.gguf --out none/d.gguf
cp straight/m.gguf d.gguf.checkpoint
adapters train-lm "$TEXT" --tokenizer tokenizer.gguf --embedding 32 --layers 1 --heads 2 --out d.gguf >said.txt 2>log.txt && fail 'took a model for a checkpoint'
contains "$(cat log.txt)" 'd.gguf.checkpoint: has no key "training.run"'
