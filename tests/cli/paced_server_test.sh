. "$(dirname "$0")/lib.sh"

# A target that is told how long its passes take: it says so first, writes what the target alone writes, and takes that time.
server=$(dirname "$OUTRIDER")/bench/paced_server
trap 'kill "$server_pid" 2>/dev/null || true' EXIT
write() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 40 2>summary.txt; }

start --pass 1:20,16:28 --model stories.gguf --listen 127.0.0.1:0
contains "$(head -1 server.log)" 'paced: passes take 1:20,16:28 ms'
text=$(write --model stories.gguf)
equals "$text" "$(write --server "$address" --draft ngram --tokenizer stories.gguf)"
begin=$(date +%s%N)
equals "$text" "$(write --server "$address" --place target --tokenizer stories.gguf)"
milliseconds=$((($(date +%s%N) - begin) / 1000000))
[ $milliseconds -ge 800 ] || fail "40 passes of 20 ms took $milliseconds ms"
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"
contains "$(tail -1 server.log)" 'runs took longer than their pace'

# A device begins with the draft that a server has, if there is one, and what it finds out about that goes on in the next
# text, though none of a text's passes told what a row costs.
start --pass 20 --model stories.gguf --draft stories.gguf --listen 127.0.0.1:0
verdicts_there() { awk '$1 != "accepted" && $9 == 1 { print $11 }' "$XDG_CACHE_HOME/outrider/prices"; }
long() { outrider run "$@" --prompt 'Once upon a time' --max-tokens 115 --temperature 0.8 2>summary.txt; }
rm -f "$XDG_CACHE_HOME/outrider/prices"
text=$(long --model stories.gguf)
known=0
for _ in first second; do
  equals "$text" "$(long --server "$address" --draft stories.gguf --verbose)"
  contains "$(cat summary.txt)" "over the server's own draft"
  before=$known
  known=$(verdicts_there)
  [ "$known" -ge $((before + 20)) ] || fail "$known verdicts there after $before"
done
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ended with $?"

contains "$("$server" --help)" 'A paced outrider-server'
fails 2 '--pass is required' "$server" --model stories.gguf
fails 1 "'soon' is no time" timeout 60 "$server" --pass soon --model stories.gguf
