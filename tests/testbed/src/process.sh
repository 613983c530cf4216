# Runs one program and outlives whoever asked for it: when standard input ends, for whatever reason, the program ends.
# $1: the run's folder; $2: a name; then the program and its arguments.
# Lines on standard input are names of signals to pass on. Standard output tells the program's id, then how it ended.
run=$1 name=$2
shift 2
alive=$run/alive/$name

: >"$alive" || exit 1
"$@" </dev/null >>"$run/$name.log" 2>&1 &
program=$!
# A subshell, because telling somebody who is gone is answered by SIGPIPE, which must not be the end of this shell.
(echo "$program")

# A background job's standard input is /dev/null unless it is redirected.
exec 3<&0
{
	while read -r signal; do kill -s "$signal" "$program"; done
	# Once reaped, the id may be another's.
	if [ -e "$alive" ]; then kill -s KILL "$program"; fi
} <&3 2>/dev/null &

wait "$program"
status=$?
rm -f "$alive"
(echo "$status")

# Until standard input ends. Then what the program had started goes too: all in this process group but this shell.
wait
trap '' TERM
kill -s TERM 0

# The last shell of a run removes its folder. A program that was just terminated may still be writing to it.
rmdir "$run/alive" 2>/dev/null || exit 0
rm -rf "$run" || { sleep 1 && rm -rf "$run"; }
