# The demonstration family: its parts belong together, the draft changes no token and spares passes, exits know how sure they
# are, and the card quotes what the models write. The fifth argument is outrider-adapters.
. "$(dirname "$0")/../cli/lib.sh"
ADAPTERS=$5
family=$(cd "$(dirname "$0")/../../deploy/demo-models" && pwd)
models=(--target "$family/target.gguf" --draft "$family/draft.gguf")
prompt='One day a boy and his dog went to the river.'

[ "$(du -sb "$family" | cut -f1)" -le 40000000 ] || fail 'more than 40 MB'

write() { outrider run "$@" --prompt "$prompt" --max-tokens 60 2>summary.txt; }
for sampling in '--temperature 0' '--temperature 0.6 --seed 5'; do
  # shellcheck disable=SC2086
  alone=$(write --model "$family/target.gguf" $sampling)
  contains "$(cat summary.txt)" 'generated: 60 tokens'
  # shellcheck disable=SC2086
  equals "$alone" "$(write --model "$family/target.gguf" --draft "$family/draft.gguf" $sampling)"
  # There every line is a quotation.
  contains "$(sed 's/^> \?//' "$family/README.md")" "$prompt$alone"
done

start --model "$family/target.gguf" --listen 127.0.0.1:0
trap 'kill $server_pid' EXIT
equals "$alone" "$(write --server "$address" --draft "$family/draft.gguf" --temperature 0.6 --seed 5)"

# In small what the card tells at length. (A row of agreement.csv ends with what is accepted of 2, of 4 and of 8.)
text=$DATA/text/christmas_angel.txt.gz
"$ADAPTERS" evaluate-draft "$text" "${models[@]}" --prompts 32 --reply-tokens 48 --csv agreement.csv >agreement.txt 2>log.txt
awk -F, '
  /do not repeat/ { greedy = $(NF - 1) }
  /the same noise/ { same = $(NF - 1) }
  /noise of its own/ { own = $(NF - 1) }
  END { exit !(greedy > 1.8 && same > 1.8 && same > 2 * own) }' agreement.csv || fail "the draft foresees too little: $(cat agreement.txt)"

"$ADAPTERS" evaluate-exits "$text" "${models[@]}" --exits "$family/target.exits.gguf" --passes 400 --csv exits.csv >exits.txt 2>log.txt
awk -F, '
  NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i }
  $2 == "all" && ($at["calibrated_ece"] > 0.1 || $at["calibrated_auc"] < $at["softmax_auc"]) { bad = 1 }
  END { exit bad || NR != 1 + 2 * 5 }' exits.csv || fail "exits are not as sure as they are right: $(cat exits.txt)"
