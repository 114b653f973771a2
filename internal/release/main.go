// SPDX-License-Identifier: BSD-3-Clause

// Release writes what is attached to a release into a folder: SHA256SUMS, with the checksums of
// all files that git tracks, for those who copy some of them; and a bill of materials in the form
// of CycloneDX, with the modules that the nested modules use. It needs no network if the modules
// are in Go's cache, and writes the same whenever it runs.
//
//	go run ./internal/release v0.1.0 FOLDER
//
// Check copied files with sha256sum --check --ignore-missing SHA256SUMS.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: go run ./internal/release VERSION FOLDER")
	}
	if err := write(".", os.Args[1], os.Args[2]); err != nil {
		log.Fatal("release: ", err)
	}
}

// write writes both files of the repository at root.
func write(root, version, folder string) error {
	files, err := tracked(root)
	if err != nil {
		return err
	}
	sums, err := checksums(root, files)
	if err != nil {
		return err
	}
	bom, err := materials(root, version, files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "SHA256SUMS"), sums, 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "sbom.cdx.json"), bom, 0o666)
}

// run returns what a command prints in a folder.
func run(folder, name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Dir = folder
	out, err := command.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		line := name + " " + strings.Join(args, " ")
		return nil, fmt.Errorf("%s in %s: %w\n%s", line, folder, err, exit.Stderr)
	}
	return out, err
}

// tracked lists the files of git.
func tracked(root string) ([]string, error) {
	out, err := run(root, "git", "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// checksums writes them as sha256sum does.
func checksums(root string, files []string) ([]byte, error) {
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256(text), file)
	}
	return all.Bytes(), nil
}

// What CycloneDX 1.6 calls a bill of materials, as far as it is needed here:
// https://cyclonedx.org/docs/1.6/json.
type (
	bill struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Scope      string     `json:"scope,omitempty"`
		Hashes     []digest   `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		PURL       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	digest struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

func newComponent(path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}

// materials lists the modules from which the packages of all nested modules are built. The module
// at the top is built from nothing but the standard library, so they are optional.
func materials(root, version string, files []string) ([]byte, error) {
	name, err := run(root, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	own := newComponent(strings.TrimSpace(string(name)), version)
	bsd := license{}
	bsd.License.ID = "BSD-3-Clause"
	own.Licenses = []license{bsd}

	found := map[string]*component{}
	for _, file := range files {
		folder, base := filepath.Split(file)
		if base != "go.mod" || strings.Contains(folder, "testdata") {
			continue
		}
		if err := gather(found, root, folder); err != nil {
			return nil, err
		}
	}
	all := bill{
		Format:      "CycloneDX",
		SpecVersion: "1.6",
		Version:     1,
		Metadata:    metadata{own},
		Components:  []component{},
	}
	for _, c := range found {
		all.Components = append(all.Components, *c)
	}
	byRef := func(a, b component) int { return strings.Compare(a.Ref, b.Ref) }
	slices.SortFunc(all.Components, byRef)
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}

// sum matches a line of go.sum that is about the content of a module.
var sum = regexp.MustCompile(`(?m)^(\S+) (\S+) h1:(\S+)$`)

// gather adds the modules from which that in a folder is built.
func gather(found map[string]*component, root, folder string) error {
	const format = "{{with .Module}}" +
		"{{if not .Main}}{{if not .Replace}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}"
	out, err := run(filepath.Join(root, folder), "go", "list", "-deps", "-f", format, "./...")
	if err != nil {
		return err
	}
	sums := map[string]string{}
	text, err := os.ReadFile(filepath.Join(root, folder, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, line := range sum.FindAllStringSubmatch(string(text), -1) {
		sums[line[1]+" "+line[2]] = line[3]
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		path, version, ok := strings.Cut(module, " ")
		if !ok {
			continue // a package of the module itself, or of the standard library
		}
		c := found[module]
		if c == nil {
			hash, err := base64.StdEncoding.DecodeString(sums[module])
			if err != nil || len(hash) != sha256.Size {
				return fmt.Errorf("%sgo.sum has no checksum of %s", folder, module)
			}
			added := newComponent(path, version)
			added.Scope = "optional"
			added.Hashes = []digest{{"SHA-256", hex.EncodeToString(hash)}}
			c = &added
			found[module] = c
		}
		user := strings.TrimSuffix(filepath.ToSlash(folder), "/")
		c.Properties = append(c.Properties, property{"used by", user})
	}
	return nil
}
