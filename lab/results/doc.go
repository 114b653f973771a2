// SPDX-License-Identifier: BSD-3-Clause

// Package results writes what the lab measures into this folder, and reads it again: pages
// (Markdown with parts that a program writes), tables (CSV) and pictures (PNG, for light and dark
// pages).
//
// All programs of the lab run in the folder lab, so paths are those that are seen from there.
package results

const (
	// Folder is where the project's own results stand.
	Folder = "results"

	// Project is the project's top folder.
	Project = ".."
)
