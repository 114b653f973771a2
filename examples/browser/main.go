// SPDX-License-Identifier: BSD-3-Clause

// Browser serves a page that shows all of timesync, live: the elevator problem on three clocks,
// and a graph of how well the page knows the server's clock, by stamps over WebTransport and by
// ping over a WebSocket. It prints the address; open it in two windows.
//
//	cd examples/browser && go run .  # until you stop it
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// page says in which files there is what the browser loads besides those of the folder static, by
// name.
type page map[string]string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address of the page; port 0 takes a free one")
	record := flag.String("record", "", "record what the clocks are told into files in this `folder`, one for each WebTransport session")
	flag.Parse()

	if err := run(*addr, *record); err != nil {
		log.Fatal(err)
	}
}

// run serves the page until it is interrupted.
func run(addr, record string) error {
	dir, err := os.MkdirTemp("", "timesync")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("building the page, which takes a while the first time ...")
	p, err := buildPage(dir)
	if err != nil {
		return err
	}
	s, err := serve(addr, p, record)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Println("open", s.address(), "in a browser, and once more in another window; Ctrl+C ends it")
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	<-interrupt
	return nil
}

// buildPage compiles the page for the browser into a folder. It needs Go and this folder.
func buildPage(dir string) (page, error) {
	const source = "timesync/examples/browser/page"
	wasm := filepath.Join(dir, "page.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", wasm, source)
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := build.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("building the page: %w; is this the folder examples/browser?\n%s", err, out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	return page{
		"page.wasm": wasm,
		// of the Go that built it
		"wasm_exec.js": filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"),
		// for the page without WebAssembly
		"timesync.mjs": filepath.Join("..", "..", "js", "timesync.mjs"),
	}, nil
}
