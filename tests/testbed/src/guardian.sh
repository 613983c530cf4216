# Runs one program and outlives whoever asked for it: when standard input ends, for whatever reason, the program ends.
# $1: the run's folder; $2: a name; $3: the signal that ends the program; then the program and its arguments.
# Lines on standard input are names of signals to pass on. Standard output tells the program's id, then how it ended.
run=$1 name=$2 last=$3
shift 3
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
	if [ -e "$alive" ]; then kill -s "$last" "$program"; fi
} <&3 2>/dev/null &

wait "$program"
status=$?
rm -f "$alive"
(echo "$status")

# Until standard input ends. Then the last guardian of a run puts out the light.
wait
rmdir "$run/alive" 2>/dev/null && rm -rf "$run"
exit 0
