# Runs one program, and ends it when standard input ends, which happens however the parent process ends.
# $1: the run's folder; $2: a name; then the program and its arguments.
# Lines on standard input are names of signals to forward. Standard output is the program's ID, then its exit status.
run=$1 name=$2
shift 2
alive=$run/alive/$name

: >"$alive" || exit 1
"$@" </dev/null >>"$run/$name.log" 2>&1 &
program=$!
# In a subshell, because SIGPIPE must not end this shell if the parent is gone.
(echo "$program")

# A background job's standard input is /dev/null unless it is redirected.
exec 3<&0
{
	while read -r signal; do kill -s "$signal" "$program"; done
	# After the program was reaped, its ID may belong to another process.
	if [ -e "$alive" ]; then kill -s KILL "$program"; fi
} <&3 2>/dev/null &

wait "$program"
status=$?
rm -f "$alive"
(echo "$status")

# Waits until standard input ends. Then the program's children end too: all of this process group but this shell.
wait
trap '' TERM
kill -s TERM 0

# The last shell of a run removes its folder. A program that was just terminated may still be writing to it.
rmdir "$run/alive" 2>/dev/null || exit 0
rm -rf "$run" || { sleep 1 && rm -rf "$run"; }
