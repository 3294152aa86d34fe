# A hundred files become a hundred objects.
mkdir logs && seq 100000 | split -l 1000 - logs/day-
benthic pool create logs
benthic cp -r logs logs/2026
# Write a method in Rust, C, C++, Zig, AssemblyScript or Go.
benthic class new wordcount --lang rust
benthic class build wordcount
# Deploy it. Then it runs beside one object, and beside all of them: only numbers move.
benthic class deploy wordcount/wordcount.wasm --pool logs
benthic exec logs/2026/day-aa wordcount count
benthic map logs wordcount count --reduce sum
# A method that panics fails its own call. The object stays as it was.
benthic exec logs/2026/day-aa hello panic
benthic exec logs/2026/day-aa wordcount count
