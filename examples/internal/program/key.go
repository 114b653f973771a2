// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
)

// KeyVariable names the environment variable of the key: arguments can be seen by everybody
// on the machine.
const KeyVariable = "TIMESYNC_KEY"

// KeyFlag adds the flag -key: who says by whom the key is shared.
func KeyFlag(f *flag.FlagSet, into *string, who string) {
	// The environment is no default here: -h would print it.
	f.StringVar(into, "key", "", "64 hex `digits` that "+who+";\n@FILE: read them there; not given: $"+KeyVariable)
}

// Key reads a key as -key has it.
func Key(text string) (key [32]byte, err error) {
	text = cmp.Or(text, os.Getenv(KeyVariable))
	if file, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return key, fmt.Errorf("-key: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		rand.Read(key[:])
		return [32]byte{}, fmt.Errorf("-key: must be 64 hex digits, the same on all ends, such as this fresh one: %x", key)
	}
	return [32]byte(b), nil
}

// SubKey returns the key for a part of what all ends share: who knows one for another part cannot tell it.
func SubKey(key [32]byte, part string) [32]byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(part))
	return [32]byte(h.Sum(nil))
}
