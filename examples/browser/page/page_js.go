// SPDX-License-Identifier: BSD-3-Clause

// Page is the client for the browser: package client, made known to JavaScript as
// timesyncPage. It opens no connection and draws nothing; static/page.js does.
package main

import (
	"syscall/js"
	"time"

	"timesync/clock"
	"timesync/examples/browser/client"
)

// rawUsec reads a clock of the browser, which counts milliseconds, in microseconds.
func rawUsec(ms js.Value) uint64 { return uint64(ms.Float() * 1000) }

// ms is a duration, of which JavaScript counts milliseconds.
func ms(v js.Value) time.Duration {
	return time.Duration(v.Float() * float64(time.Millisecond))
}

// toBytes copies a Uint8Array.
func toBytes(array js.Value) []byte {
	b := make([]byte, array.Length())
	js.CopyBytesToGo(b, array)
	return b
}

// sender returns a function that hands bytes to a JavaScript function of one Uint8Array.
func sender(to js.Value) func([]byte) {
	arrays := js.Global().Get("Uint8Array")
	return func(b []byte) {
		array := arrays.New(len(b))
		js.CopyBytesToJS(array, b)
		to.Invoke(array)
	}
}

func main() {
	performance := js.Global().Get("performance")
	page := js.Global().Get("timesyncPage") // {sendDatagram, sendMessage, event, ready}
	c := client.New(func() uint64 { return rawUsec(performance.Call("now")) })
	c.Datagram, c.Message = sender(page.Get("sendDatagram")), sender(page.Get("sendMessage"))
	c.Event = func(line string) { page.Call("event", line) }
	for name, f := range functions(c) {
		page.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) any { return f(args) }))
	}
	page.Set("step", float64(clock.Step())/float64(time.Millisecond))
	page.Get("ready").Invoke()
	select {} // the functions stay
}

// functions returns what JavaScript may call. None of it may block: the browser waits.
func functions(c *client.Client) map[string]func(args []js.Value) any {
	return map[string]func(args []js.Value) any{
		"connect": func(a []js.Value) any {
			c.Connect(client.Greeting{
				Player:     uint32(a[0].Get("player").Int()),
				UnixAtZero: int64(a[0].Get("unixAtZero").Float()),
			}, a[1].Bool())
			return nil
		},
		"onDatagram": func(a []js.Value) any { c.OnDatagram(toBytes(a[0]), rawUsec(a[1])); return nil },
		"onMessage":  func(a []js.Value) any { c.OnMessage(toBytes(a[0]), rawUsec(a[1])); return nil },
		"advance":    func(a []js.Value) any { c.Advance(rawUsec(a[0])); return nil },
		"walk":       func(a []js.Value) any { c.Walk(a[0].Float()); return nil },
		"stepClock":  func(a []js.Value) any { c.StepClock(ms(a[0])); return nil },
		"setBuffers": func(a []js.Value) any { return c.SetBuffers(ms(a[0]), ms(a[1])) == nil },
		"frame":      func(a []js.Value) any { return c.Frame(rawUsec(a[0])) },
		"sample":     func(a []js.Value) any { return c.Sample(rawUsec(a[0]), a[1].Float()*1000) },
	}
}
