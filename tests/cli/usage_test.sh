. "$(dirname "$0")/lib.sh"

# Help teaches: every command says what it does, with an example.
for command in inspect tokenize detokenize convert; do
  contains "$(outrider --help)" "$command"
  contains "$(outrider $command --help)" "  outrider $command "
done
contains "$(outrider --version)" 'outrider 0.'

# Wrong usage is 2, and says what would be right.
fails 2 'A subcommand is required' outrider
fails 2 'required' outrider inspect
fails 2 'required' outrider convert stories.gguf
fails 2 'q9_9' outrider convert stories.gguf --out x.gguf --type q9_9
fails 2 '--nonsense' outrider inspect stories.gguf --nonsense

# All that a line of the file of keys may say.
for limit in sessions streams opens-per-minute share; do
  contains "$("$server" --help)" " $limit=N"
done
