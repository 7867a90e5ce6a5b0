. "$(dirname "$0")/lib.sh"
demo=$DATA/../../deploy/demo-models
cp "$demo/target.gguf" "$demo/target.exits.gguf" "$demo/draft.gguf" .

# Whatever exits take out of passes and whichever rows the head is asked for, in memory and from flash, the text is that of
# the target alone, greedy and sampled.
exits=(--exits target.exits.gguf)  # beside the target, where a budget might leave them out
least=$({ outrider run --target target.gguf --draft draft.gguf --spec-prune on --memory 1MiB --prompt x 2>&1 >/dev/null || true; } |
  sed -n 's/.*the least that works is \([0-9]*\)MiB.*/\1/p')
[ -n "$least" ] || fail 'no least is named'
pruned() { sed -n 's/^pruned: \([0-9.]*\) drafted tokens a token.*/\1/p' summary.txt; }
settings=('' '--temperature 0.8 --top-p 0.95 --repeat-penalty 1.1 --seed 5')
for setting in "${settings[@]}"; do
  run() {
    # shellcheck disable=SC2086
    outrider run --target target.gguf --prompt 'Once upon a time there was' --max-tokens 60 $setting --verbose "$@" 2>summary.txt
  }
  text=$(run)
  for memory in 0 $((least + 2)); do
    place=()
    [ "$memory" -eq 0 ] || place=(--memory "${memory}MiB")
    for policy in edgellm auto; do
      for way in 'on path' 'on all' 'off path' 'auto auto'; do
        read -r prune projection <<<"$way"
        equals "$text" "$(run --draft draft.gguf --policy $policy --spec-prune "$prune" --spec-projection "$projection" "${exits[@]}" "${place[@]}")"
        [ "$prune" != off ] || equals 0.00 "$(pruned)"
      done
    done
    equals "$text" "$(run --draft draft.gguf --exits none --policy edgellm "${place[@]}")"
    equals '' "$(pruned)"
    equals "$text" "$(run --draft draft.gguf --policy edgellm --spec-prune on "${place[@]}")"
    awk "BEGIN { exit !($(pruned) > 0) }" || fail "nothing is pruned: $(cat summary.txt)"
  done
done
# On flash they give hints while a pass runs; in memory nobody drafts then.
# (A trace takes 16 MiB of the budget.)
run --draft draft.gguf --policy ours "${exits[@]}" --memory "$((least + 18))MiB" --trace trace.json >/dev/null
contains "$(cat summary.txt)" ' hints, '
contains "$(cat trace.json)" '"name":"hint"'

# What cannot be is a sentence.
mkdir alone && cp target.gguf alone
fails 1 'alone/target.gguf has no exits beside it' outrider run --target alone/target.gguf --draft draft.gguf --spec-prune on --prompt x
fails 1 'exits none leaves them out' outrider run --target target.gguf --draft draft.gguf --exits none --spec-prune on --prompt x
fails 1 'torch keeps all rows of a pass' outrider run --target target.gguf --draft draft.gguf --device torch --spec-prune on --prompt x
fails 1 'torch asks its head for all rows' outrider run --target target.gguf --draft draft.gguf --device torch --spec-projection path --prompt x
fails 1 'exits target.exits.gguf: exits say what becomes of drafted tokens' outrider run --target target.gguf --exits target.exits.gguf --prompt x
fails 1 'spec-prune on: exits say what becomes of drafted tokens' outrider run --target target.gguf --spec-prune on --prompt x
for flags in '--spec-prune on' '--spec-projection path' '--exits target.exits.gguf'; do
  # shellcheck disable=SC2086
  fails 1 "${flags#--}: the target is at a server" outrider run --server localhost:1 --draft draft.gguf $flags --prompt x
done
# A server's environment is no reason to fail where there is nothing that it could be about.
equals "$(outrider run --target target.gguf --prompt x --max-tokens 9 2>/dev/null)" \
  "$(OUTRIDER_EXITS=target.exits.gguf OUTRIDER_SPEC_PRUNE=on outrider run --target target.gguf --prompt x --max-tokens 9 2>/dev/null)"
OUTRIDER_EXITS=nowhere.gguf OUTRIDER_SPEC_PROJECTION=path fails 1 'localhost:1' outrider run --server localhost:1 --draft draft.gguf --prompt x
[[ "$(cat err.txt)" != *exits* ]] || fail "exits are spoken of: $(cat err.txt)"
OUTRIDER_EXITS=nowhere.gguf fails 1 'nowhere.gguf: ' outrider run --target target.gguf --draft draft.gguf --prompt x
cp draft.gguf alone && cp target.exits.gguf alone/draft.exits.gguf
fails 1 'alone/draft.exits.gguf: was trained for' outrider run --target alone/draft.gguf --draft draft.gguf --exits alone/draft.exits.gguf --prompt x
fails 1 'or go on without: leave out --spec-prune on' outrider run --target alone/draft.gguf --draft draft.gguf --spec-prune on --prompt x
# Another model's that nobody has asked for are told of once, with the hashes of both, and nothing else comes of them;
# nor of such a file that is none.
beside() { outrider run --target alone/draft.gguf --draft draft.gguf --prompt 'Once upon a time' --max-tokens 20 "$@" 2>summary.txt; }
text=$(beside --exits none)
equals '' "$(grep 'exits are not used' summary.txt || true)"
for memory in '' '--memory 900MiB'; do
  # shellcheck disable=SC2086
  equals "$text" "$(beside $memory)"
  notice=$(grep 'exits are not used: ' summary.txt)
  equals 1 "$(wc -l <<<"$notice")"
  contains "$notice" 'alone/draft.exits.gguf: was trained for'
  equals 2 "$(grep -o 'weights [0-9a-f]\{16\}' <<<"$notice" | sort -u | wc -l)"
done
head -c 1000 target.exits.gguf >alone/draft.exits.gguf
equals "$text" "$(beside)"
contains "$(cat summary.txt)" 'exits are not used: alone/draft.exits.gguf: '
