. "$(dirname "$0")/lib.sh"

run() { outrider run --model stories.gguf "$@" 2>summary.txt; }

# A real model writes the text its makers expect of it, to the byte; the summary is not part of it.
equals "$(cat "$DATA/models/stories260k/expected_greedy_200.txt")" "$(run --prompt '' --max-tokens 200)"
contains "$(cat summary.txt)" 'generated: 200 tokens'
contains "$(cat summary.txt)" 'peak memory:'

# The text depends neither on threads nor on kernels, and these say what they are.
text=$(run --prompt 'Lily had a' --max-tokens 40 --temperature 0.9 --top-p 0.95 --seed 11)
for variant in '--threads 1' '--threads 3' '--isa scalar' '--context 64'; do
  # shellcheck disable=SC2086
  equals "$text" "$(run --prompt 'Lily had a' --max-tokens 40 --temperature 0.9 --top-p 0.95 --seed 11 $variant)"
done
[ "$text" != "$(run --prompt 'Lily had a' --max-tokens 40 --temperature 0.9 --top-p 0.95 --seed 12)" ] ||
  fail 'another seed gave the same text'
run --prompt x --max-tokens 1 --isa scalar --threads 1 --verbose >/dev/null
contains "$(cat summary.txt)" 'kernels scalar, 1 threads, context 512'
id=$(sed -n 's/.*numerics id \([0-9a-f]\{16\}\),.*/\1/p' summary.txt)
[ -n "$id" ] || fail 'no numerics id'
run --prompt x --max-tokens 1 --verbose >/dev/null
contains "$(cat summary.txt)" "numerics id $id,"

# A prompt from standard input or the environment is the same prompt.
equals "$text" "$(printf 'Lily had a' | OUTRIDER_MODEL=stories.gguf OUTRIDER_TOP_P=0.95 OUTRIDER_SEED=11 \
  OUTRIDER_MAX_TOKENS=40 outrider run --temperature 0.9 2>/dev/null)"

# A stop text ends the reply and is not printed. A context that is full ends it before its end: the text so far is there,
# and a sentence.
equals 'Once upon a time, there was a little girl named Lily' "$(run --prompt '' --stop . --stop xyz)"
ends_at 24 run --prompt 'Once upon a time' --context 24
equals "$(run --prompt 'Once upon a time' --max-tokens 20)" "$(cat out.txt)"

# Quantised files run as well.
for type in f16 bf16 q8_0 q4_0; do
  outrider convert stories.gguf --out $type.gguf --type $type >/dev/null
  contains "$(outrider run --model $type.gguf --prompt '' --max-tokens 30 2>/dev/null)" 'Once upon a time'
done

# A chat by the model's own template: a line in, a reply out, and what was said before counts.
chat() { outrider run --model "$DATA/models/llama" --chat --max-tokens 8 "$@" 2>summary.txt; }
first=$(printf 'Hello there\n' | chat)
both=$(printf 'Hello there\nAnd again\n' | chat)
contains "$both" "$first"
[ "$both" != "$first" ] || fail 'the second message had no reply'

# Ctrl-C ends the text, not the summary.
begin_text partial.txt "$OUTRIDER" run --model stories.gguf --prompt '' --temperature 1 --context 512 --stop 'never said' --isa scalar --threads 1
kill -INT "$writer"
wait "$writer" || fail 'Ctrl-C is no failure'
contains "$(cat summary.txt)" 'peak memory:'

fails 1 'no chat template' outrider run --model stories.gguf --chat
fails 1 'is more than the 512 stories260k was made for; ask for 512 at most' outrider run --model stories.gguf --prompt x --context 513
fails 1 'does not fit into a context of 3; shorten it: give a larger --context, of 512 at most' outrider run --model stories.gguf --prompt 'Once upon a time' --context 3
long=$(printf 'word %.0s' $(seq 600))
fails 1 'does not fit into a context of 512; shorten it: the model was made for 512 at most' outrider run --model stories.gguf --prompt "$long" --context 512

# What a context takes of memory, and the one that fits.
cp -r "$DATA/models/llama" long
sed -i 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 1000000000/' long/config.json
fails 1 'keys and values of 1 context of 1000000000 tokens take' outrider run --model long --prompt x --context 1000000000
contains "$(cat err.txt)" 'long: '
contains "$(cat err.txt)" 'a --context of '
fails 1 'rows see in a context of 1000000000 tokens take' outrider run --model long --prompt x --context 1000000000 --kv-memory 1MiB
contains "$(cat err.txt)" 'a --context of '

# A template that makes nothing, and a file that ends in the middle.
cp -r "$DATA/models/llama" mute
printf '{# nothing #}' >mute/chat_template.jinja
status=0
printf 'Hello\n' | outrider run --model mute --chat >out.txt 2>err.txt || status=$?
equals 1 "$status"
contains "$(tail -1 err.txt)" 'mute: chat template makes nothing of 1 message'
cp -r "$DATA/models/llama" cut
head -c 155 "$DATA/models/llama/tokenizer.json" >cut/tokenizer.json
fails 1 'cut/tokenizer.json: ends after 155 bytes in the middle of its JSON' outrider run --model cut --prompt x

# A count that is none.
fails 2 '--max-tokens: "-3" is not above zero' outrider run --model stories.gguf --prompt x --max-tokens -3
equals 2 "$(wc -l <err.txt)"
fails 2 '--context: "0" is not above zero' outrider run --model stories.gguf --prompt x --context 0

fails 1 'top_p' outrider run --model stories.gguf --prompt x --temperature 1 --top-p 2
fails 1 'amd64' outrider run --model stories.gguf --prompt x --isa amd64
fails 1 'nowhere.gguf' outrider run --model nowhere.gguf --prompt x
fails 1 'olmoe: has no tokenizer' outrider run --model "$DATA/models/olmoe" --prompt x
fails 1 'encoder and decoder' outrider run --model "$DATA/models/t5" --prompt x
fails 2 '--prompt' outrider run --model stories.gguf --prompt x --chat
fails 2 '--model' outrider run --prompt x
