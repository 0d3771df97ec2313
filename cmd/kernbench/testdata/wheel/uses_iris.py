import iris.bench as bench

print(bench.register)
