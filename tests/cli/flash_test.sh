. "$(dirname "$0")/lib.sh"
inflate=$(dirname "$OUTRIDER")/bench/inflate
"$TOOLS/damaged_model" stories.gguf 0.1 draft.gguf
# The same text at the price of sixteen layers of 3 MiB.
"$inflate" stories.gguf --out grown.gguf --width 512 --feed-forward 1536 --layers 16 --type q8_0 >/dev/null
outrider convert grown.gguf --out target.gguf --flash >/dev/null

# The least that works is said; with that next to nothing is pinned, with more some of it is, with plenty all. The program
# is not always as large: the largest of a few is asked for.
least() {
  for _ in 1 2 3 4 5; do
    { outrider run --target "$@" --memory 1MiB --prompt x 2>&1 >/dev/null || true; } |
      sed -n 's/.*the least that works is \([0-9]*\)MiB.*/\1/p'
  done | sort -n | tail -1
}
least=$(least target.gguf --draft draft.gguf)
[ -n "$least" ] || fail 'no least is named'
fails 1 'a smaller --context takes less' outrider run --model target.gguf --draft draft.gguf --memory $((least / 2))MiB --prompt x
budgets=($((least + 2)) $((least + 25)) $((least + 200)))

# peak_of SUMMARY, in KiB
peak_of() {
  sed -n 's/.*peak memory: \([0-9.]*\) \([KMG]\)iB.*/\1 \2/p' "$1" |
    awk '{print int($1 * ($2 == "G" ? 1048576 : $2 == "M" ? 1024 : 1))}'
}

# Whatever is pinned and however it is drafted, the text is that of the target in memory, greedy and sampled; and the
# process stays within its budget.
settings=('' '--temperature 0.9 --top-p 0.95 --repeat-penalty 1.1 --seed 5')
for setting in "${settings[@]}"; do
  run() {
    # shellcheck disable=SC2086
    outrider run --target target.gguf --prompt 'Once upon a time' --max-tokens 40 $setting --verbose "$@" 2>summary.txt ||
      fail "$(cat summary.txt)"
  }
  text=$(run)
  [ -n "$text" ] || fail "no text: $(cat summary.txt)"
  for budget in "${budgets[@]}"; do
    for policy in ours lever chain auto; do
      equals "$text" "$(run --draft draft.gguf --policy $policy --memory "${budget}MiB")"
      [ "$(peak_of summary.txt)" -le $((budget * 1024)) ] || fail "over a budget of $budget MiB: $(cat summary.txt)"
    done
  done
  for policy in fsd llmcad edgellm awaited; do
    equals "$text" "$(run --draft draft.gguf --policy $policy --memory "${budgets[0]}MiB")"
  done
  equals "$text" "$(run --memory "$(($(least target.gguf) + 2))MiB")"
  equals "$text" "$(run --draft ngram --policy ours --memory "${budgets[0]}MiB")"
  # Nor does it matter whether anything is drafted in the waits, or when the target is asked.
  for policy in edgellm auto; do
    equals "$text" "$(run --draft draft.gguf --policy $policy --spec-provisional off --memory "${budgets[0]}MiB")"
  done
  equals "$text" "$(run --draft draft.gguf --policy edgellm --spec-alpha 0 --memory "${budgets[0]}MiB")"
done
fails 1 'spec-provisional off: the target is at a server' outrider run --server localhost:1 --draft draft.gguf --spec-provisional off --prompt x
fails 2 'spec-alpha' outrider run --model target.gguf --draft draft.gguf --spec-alpha 2 --prompt x

# Exits guess in the waits, and change nothing. Those that only lie beside the target are left out where they would take
# the place of layers that passes then read.
"$TOOLS/identity_exits" target.gguf target.exits.gguf 200
guessing=$(least target.gguf --draft draft.gguf --exits target.exits.gguf)
for setting in "${settings[@]}"; do
  text=$(run --exits none --draft draft.gguf)
  for more in 2 25 200; do
    budget=$((guessing + more))
    equals "$text" "$(run --draft draft.gguf --exits target.exits.gguf --policy ours --memory "${budget}MiB")"
    # Where all of it stays, draft and target take turns, and nobody could make use of a hint.
    [ "$more" -eq 200 ] || contains "$(cat summary.txt)" ' hints, '
    [ "$(peak_of summary.txt)" -le $((budget * 1024)) ] || fail "over the budget with exits: $(cat summary.txt)"
    equals "$text" "$(run --draft draft.gguf --policy ours --memory "${budget}MiB")"
    [ "$(peak_of summary.txt)" -le $((budget * 1024)) ] || fail "over the budget beside exits: $(cat summary.txt)"
    if [ "$more" -eq 200 ]; then
      [[ "$(cat summary.txt)" != *'left out'* ]] || fail "there was room: $(cat summary.txt)"
    else
      reason='a pass would read '
      [ "$more" -eq 25 ] || reason=''  # or a prompt's runs would be shorter
      contains "$(cat summary.txt)" "target.exits.gguf: is left out, as $reason"
    fi
  done
done
equals "$text" "$(run --draft draft.gguf --policy ours --memory "${budgets[0]}MiB")"
# There is no room, or runs of a prompt would be shorter.
contains "$(cat summary.txt)" 'target.exits.gguf: is left out, as '
# The least that works is that without exits, but for who asks for them.
planned() { outrider plan --target target.gguf --draft draft.gguf --memory $((guessing + $1))MiB "${@:2}" 2>/dev/null; }
least_of() { sed -n 's/^the least that works: \([0-9]*\)MiB$/\1/p' <<<"$1"; }
plan=$(planned 1)
contains "$plan" 'exits: target.exits.gguf: is left out, as '
plan=$(planned 200)
contains "$plan" 'its exits'
[ "$(least_of "$plan")" -lt "$guessing" ] || fail "exits are counted that nobody has asked for: $plan"
plan=$(planned 200 --exits target.exits.gguf)
[ "$(least_of "$plan")" -ge $((guessing - 3)) ] || fail "exits are not counted: $plan"
fails 1 'its exits' outrider run --model target.gguf --draft draft.gguf --exits target.exits.gguf --memory 1MiB --prompt x
"$TOOLS/identity_exits" stories.gguf other.exits.gguf 200
fails 1 'other.exits.gguf: was trained for' outrider run --model target.gguf --draft draft.gguf --exits other.exits.gguf --prompt x
fails 1 'the target is at a server' outrider run --server localhost:1 --draft draft.gguf --exits other.exits.gguf --prompt x
rm target.exits.gguf

# What was pinned, and what that spares.
pinned() { run --draft draft.gguf --memory "$1MiB" >/dev/null && sed -n 's/^of .*: \([0-9]*\) of 16 layers stay.*/\1/p' summary.txt; }
[ "$(pinned "${budgets[0]}")" -le 1 ] || fail "of the least a layer stays: $(cat summary.txt)"
for part in ' a token, by ' 'disk: written ' 'energy: '; do
  contains "$(cat summary.txt)" "$part"
done
some=$(pinned "${budgets[1]}")
{ [ "$some" -gt 0 ] && [ "$some" -lt 16 ]; } || fail "$some layers are some"
equals 16 "$(pinned "${budgets[2]}")"
contains "$(cat summary.txt)" 'a pass reads 0 B of flash'

# A plan is what a run goes by, and says how fast it will be. Each measures how large its own process is, which may be a
# layer's worth more or less.
plan=$(outrider plan --target target.gguf --draft draft.gguf --memory "${budgets[1]}MiB" 2>/dev/null)
stay=$(sed -n 's/.* \([0-9]*\) of 16 layers stay.*/\1/p' <<<"$plan")
{ [ "$stay" -ge $((some - 1)) ] && [ "$stay" -le $((some + 1)) ]; } || fail "$some layers stay of a run, and of its plan: $plan"
for part in 'the least that works' 'a pass reads' 'this flash' 'a prompt of 512 tokens: 2 runs of up to ' 'expected: ' \
  'tokens/s of the target alone'; do
  contains "$plan" "$part"
done

# Rows are packed for every pass; a file for flash is read as it is computed with.
contains "$(outrider inspect target.gguf)" 'laid out for flash'
[[ "$plan" != *'packing what is read'* ]] || fail "a file for flash is packed: $plan"
contains "$(outrider plan --target grown.gguf --memory "${budgets[1]}MiB" 2>/dev/null)" 'packing what is read'

# As often as this draft has been right at this target, once that is known; and assumed until then.
contains "$(outrider plan --target target.gguf --draft draft.gguf --memory "${budgets[1]}MiB" --price-file prices 2>/dev/null)" ' of 100 are right (assumed)'
run --draft draft.gguf --memory "${budgets[0]}MiB" --policy chain --price-file prices >/dev/null
verdicts=$(sed -n 's/^passes: \([0-9]*\) .*/\1/p' summary.txt)
contains "$(outrider plan --target target.gguf --draft draft.gguf --memory "${budgets[1]}MiB" --price-file prices 2>/dev/null)" \
  " of 100 are right (measured on this machine in $verdicts verdicts)"

# A trace has what was read, and waited for; what it takes of memory is planned, too.
run --draft draft.gguf --memory "$((budgets[0] + 40))MiB" --trace trace.json >/dev/null
for name in flash read wait; do contains "$(cat trace.json)" "\"name\":\"$name\""; done

# Of a model with experts those that rows choose are read, drawn, and summed up.
"$TOOLS/random_model" moe-10m q8_0 experts.gguf >/dev/null
experts() {
  "$OUTRIDER" run --model experts.gguf --prompt 'Once upon a time' --max-tokens 20 --verbose "$@" 2>summary.txt ||
    fail "$(cat summary.txt)"
}
text=$(experts)
[[ "$(cat summary.txt)" != *'experts: '* ]] || fail "nothing is read: $(cat summary.txt)"
planned=$(outrider plan --target experts.gguf --memory 4GiB 2>/dev/null)
equals "$text" "$(experts --memory $(($(least_of "$planned") + 4))MiB)"
[[ "$(cat summary.txt)" =~ experts:\ .*\ read,\ .*\ a\ token\;\ [0-9.]+\ %\ of\ .*\ uses\ found\ theirs\ in\ memory\;\ [0-9]+\ evicted ]] ||
  fail "nothing of experts: $(cat summary.txt)"
experts --memory 4GiB --trace trace.json >/dev/null
for name in experts 'read expert' 'wait for expert'; do contains "$(cat trace.json)" "\"name\":\"$name\""; done

# A prompt that is read in pieces is the same prompt, whatever a budget makes of their length.
long=$(printf 'Once upon a time there was a little girl named Lily. %.0s' $(seq 20))
text=$(outrider run --model target.gguf --prompt "$long" --max-tokens 20 2>/dev/null)
for budget in "${budgets[@]}"; do
  equals "$text" "$(outrider run --model target.gguf --memory "${budget}MiB" --prompt "$long" --max-tokens 20 2>/dev/null)"
  equals "$text" \
    "$(outrider run --model target.gguf --draft draft.gguf --memory "${budget}MiB" --prompt "$long" --max-tokens 20 2>/dev/null)"
done

# in_the_middle COMMAND...: of a text that fills its context, COMMAND is done when it has begun, with $writer, which stands
# still meanwhile: it is not to be done before a busy machine has come to it. Its exit code is in $status, and what it
# said in summary.txt.
in_the_middle() {
  cp target.gguf cut.gguf
  begin_text partial.txt \
    "$OUTRIDER" run --model cut.gguf --draft draft.gguf --memory "${budgets[0]}MiB" --prompt '' --temperature 1 --stop 'never said'
  kill -STOP "$writer"
  "$@"
  kill -CONT "$writer"
  status=0
  wait "$writer" || status=$?
}

# A file that is cut while it is read, or written to, ends the text with a sentence; one that is replaced is another.
in_the_middle truncate -s 20000000 cut.gguf
equals 1 "$status"
contains "$(tail -1 summary.txt)" 'cut.gguf: '
in_the_middle dd if=/dev/zero of=cut.gguf bs=4096 seek=1000 count=1 conv=notrunc status=none
equals 1 "$status"
contains "$(tail -1 summary.txt)" 'cut.gguf: was written to while it was used'
in_the_middle true
equals 1 "$status"
mv partial.txt whole.txt
replaced() { cp target.gguf other.gguf && mv other.gguf cut.gguf; }
in_the_middle replaced
equals 1 "$status"
contains "$(tail -1 summary.txt)" 'tokens is full'
equals "$(cat whole.txt)" "$(cat partial.txt)"

# Ctrl-C in the middle of a pass ends the text, what there is of it stays, and so does the summary.
interrupted() { kill -INT "$writer"; }
in_the_middle interrupted
equals 0 "$status"
[ -s partial.txt ] || fail 'no text stays'
contains "$(cat summary.txt)" 'peak memory: '

# Experts come from flash as well: all that a pass asks for, and where there is more room those that are not in memory.
"$TOOLS/random_model" moe-10m f32 experts.gguf
"$TOOLS/damaged_model" experts.gguf 0.02 experts_draft.gguf
for setting in "${settings[@]}"; do
  # What it says is noise, which the shell's variables cannot hold.
  run() {
    # shellcheck disable=SC2086
    outrider run --target experts.gguf --prompt 'w300 w301' --max-tokens 40 $setting --verbose "$@" 2>summary.txt | od -c
  }
  text=$(run)
  for draft in experts_draft.gguf ngram; do
    least=$(least experts.gguf --draft $draft)
    for more in 2 15; do
      for policy in ours edgellm auto; do
        equals "$text" "$(run --draft $draft --policy $policy --memory $((least + more))MiB)"
        contains "$(cat summary.txt)" 'flash: '
      done
    done
  done
done

fails 1 'torch takes of memory is not ours to plan' outrider run --model target.gguf --device torch --memory 900MiB --prompt x
fails 1 'there is no target here whose memory' outrider run --server localhost:1 --draft draft.gguf --memory 900MiB --prompt x
fails 2 '--memory' outrider plan --target target.gguf
