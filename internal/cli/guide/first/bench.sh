# The program of sweep.yaml: it does its work and prints how long that took.
start=$(date +%s%N)
awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) s += i }'
end=$(date +%s%N)
echo "time=$(((end - start) / 1000))us"
