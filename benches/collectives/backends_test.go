package collectives

import _ "github.com/kernbench/kernbench/dist/all" // as the program has them
