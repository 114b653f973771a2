// SPDX-License-Identifier: BSD-3-Clause

// None is a program for the browser that does nothing, to be weighed: see size.sh.
package main

import "syscall/js"

func main() {
	js.Global().Set("exchange", js.FuncOf(func(_ js.Value, args []js.Value) any { return args[0] }))
	select {} // the function stays
}
