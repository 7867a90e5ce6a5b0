. "$(dirname "$0")/lib.sh"
"$TOOLS/damaged_model" stories.gguf 0.1 damaged.gguf

# With a draft, whichever and however grown, the text is the target's, greedy and sampled; only the passes are fewer.
settings=('' '--temperature 0.9 --top-p 0.95 --repeat-penalty 1.1 --seed 5')
for setting in "${settings[@]}"; do
  run() {
    # shellcheck disable=SC2086
    outrider run --model stories.gguf --prompt 'Once upon a time' --max-tokens 80 $setting "$@" 2>summary.txt
  }
  text=$(run)
  for policy in chain fsd llmcad edgellm lever awaited ours auto; do
    for draft in stories damaged; do
      equals "$text" "$(run --draft $draft.gguf --policy $policy)"
      contains "$(cat summary.txt)" 'passes: '
    done
  done
done

# What the text has said before is a draft, too, and needs no model. Of a text that repeats itself some of it is right:
# there are fewer passes than tokens.
refrain='Lily said no no no no no no no no'
for setting in '' '--temperature 0.5 --seed 5'; do
  run() {
    # shellcheck disable=SC2086
    outrider run --model stories.gguf --prompt "$refrain" --max-tokens 80 $setting "$@" 2>summary.txt
  }
  text=$(run)
  for policy in chain ours; do
    equals "$text" "$(run --draft ngram --policy $policy)"
    tokens=$(sed -n 's/.*generated: \([0-9]*\) tokens.*/\1/p' summary.txt)
    passes=$(sed -n 's/^passes: \([0-9]*\) .*/\1/p' summary.txt)
    [ "$passes" -lt "$tokens" ] || fail "nothing accepted, policy $policy $setting: $(cat summary.txt)"
  done
done

run() { outrider run --model stories.gguf --draft damaged.gguf "$@" 2>summary.txt; }

# So it is when nothing, or little, may be drafted, and when the target does not wait for it.
text=$(outrider run --model stories.gguf --prompt 'Lily had a' --max-tokens 60 2>/dev/null)
for variant in '--spec-pass-nodes 1' '--spec-sketch-nodes 2' '--spec-objective server' '--spec-objective balanced' '--spec-dry alone --policy ours' '--spec-dry wait --policy chain --spec-gamma 7'; do
  # shellcheck disable=SC2086
  equals "$text" "$(run --prompt 'Lily had a' --max-tokens 60 $variant)"
done

# A trace has runs of the target, batches of the drafter, messages and text; and changes none of it.
traced() { outrider run --model stories.gguf --draft stories.gguf --prompt 'Lily had a' --max-tokens 60 "$@" 2>summary.txt; }
equals "$text" "$(traced --trace trace.json)"
for name in run batch open growth verdict text; do contains "$(cat trace.json)" "\"name\":\"$name\""; done
contains "$(outrider run --model stories.gguf --prompt x --max-tokens 4 --trace alone.json 2>/dev/null; cat alone.json)" '"name":"run"'
[[ "$(cat alone.json)" != *'"name":"batch"'* ]] || fail "something is drafted without a draft"
fails 1 '/nowhere/trace.json: cannot be written' outrider run --model stories.gguf --prompt x --trace /nowhere/trace.json
fails 1 '--trace t.json: with --place target there is nothing to trace' outrider run --server localhost:1 --place target --tokenizer stories.gguf --trace t.json --prompt x

# A stop text and a full context end it as they end the target alone.
equals 'Once upon a time, there was a little girl named Lily' "$(run --prompt '' --stop . --stop xyz)"
ends_at 24 run --prompt 'Once upon a time' --context 24
equals "$(outrider run --model stories.gguf --prompt 'Once upon a time' --max-tokens 20 2>/dev/null)" "$(cat out.txt)"

# A chat is the same chat.
chat() { outrider run --model "$DATA/models/llama" --chat --max-tokens 8 "$@" 2>/dev/null; }
text=$(printf 'Hello there\nAnd again\n' | chat)
for draft in "$DATA/models/llama" ngram; do
  equals "$text" "$(printf 'Hello there\nAnd again\n' | chat --draft "$draft")"
done

# Ctrl-C ends a text that nobody reads, too: what is shown of it waits for a reader, and nothing else does.
mkfifo unread
exec 3<>unread
head -c 65536 /dev/zero >&3
rm summary.txt
"$OUTRIDER" run --model stories.gguf --draft damaged.gguf --prompt '' --temperature 1 --stop 'never said' --verbose \
  >&3 2>summary.txt &
pid=$!
until grep -qs 'numerics id' summary.txt || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -INT $pid
wait $pid || contains "$(cat summary.txt)" 'tokens is full before the text has ended'
contains "$(cat summary.txt)" 'peak memory:'
exec 3<&-

fails 1 'cannot reach a verifier at 127.0.0.1:1' outrider run --server 127.0.0.1:1 --draft stories.gguf --prompt x
fails 1 'give host:port' outrider run --server nonsense --draft stories.gguf --prompt x
fails 1 'give host:port' outrider run --server host:66000 --draft stories.gguf --prompt x
fails 1 'a draft of the same family' outrider run --model stories.gguf --draft "$DATA/models/llama" --prompt x
cp -r "$DATA/models/llama" ngram  # which the word does not mean
fails 1 './ngram: its tokenizer has fingerprint' outrider run --model stories.gguf --draft ./ngram --prompt x
equals "$(outrider run --model stories.gguf --prompt x --max-tokens 4 2>/dev/null)" \
  "$(outrider run --model stories.gguf --draft ngram --prompt x --max-tokens 4 2>/dev/null)"
for policy in chain fsd llmcad edgellm lever awaited; do
  fails 1 "--spec-dry alone: policy $policy sends" outrider run --model stories.gguf --draft ngram --policy $policy --spec-dry alone --prompt x
done
fails 1 "--spec-dry wait: policy auto chooses" outrider run --model stories.gguf --draft ngram --spec-dry wait --prompt x
fails 1 '--spec-objective: policy ours has one way' outrider run --model stories.gguf --draft ngram --policy ours --spec-objective server --prompt x
fails 2 '--spec-objective' outrider run --model stories.gguf --draft ngram --spec-objective money --prompt x
fails 1 'give --tokenizer' outrider run --server 127.0.0.1:1 --draft ngram --prompt x
fails 1 'nowhere.gguf' outrider run --model stories.gguf --draft nowhere.gguf --prompt x
fails 1 'does not fit into a context of 3' outrider run --model stories.gguf --draft stories.gguf --prompt 'Once upon a time' --context 3
fails 1 '--server needs --draft' outrider run --server 127.0.0.1:1 --prompt x
fails 2 'one of --model (or --target) and --server is needed, and not both' outrider run --model stories.gguf --server 127.0.0.1:1 --draft stories.gguf --prompt x
fails 2 '--tokenizer requires --server' outrider run --model stories.gguf --draft ngram --tokenizer stories.gguf --prompt x
fails 2 'there is no tree policy "best"' outrider run --model stories.gguf --draft stories.gguf --policy best --prompt x
