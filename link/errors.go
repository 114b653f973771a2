// SPDX-License-Identifier: BSD-3-Clause

package link

import (
	"errors"
	"fmt"
)

// ReadHeader refuses a datagram with one of these errors, and ignores all of it.
// ReadEvent returns ErrTruncated, too.
var (
	ErrTruncated = errors.New("link: too few bytes")
	ErrVersion   = errors.New("link: the peer speaks an older version of the format")
	ErrReserved  = errors.New("link: the datagram has a reserved flag set")
	ErrAnchor    = errors.New("link: the anchor and the stamp of the datagram differ")
)

// ProposeInstant, AcceptInstant, AcceptEvent and ReadEvent return these errors.
var (
	ErrAhead  = errors.New("link: an instant must be 0 to 16 s ahead")
	ErrUnsure = errors.New("link: the peer's clock is not known well enough")
	ErrPassed = errors.New("link: the instant has passed")
	ErrFuture = errors.New("link: the event is in the future")
	ErrOld    = errors.New("link: the event is too old")
	ErrBefore = errors.New("link: the event predates a clock step, or a restart of the peer")
)

// unsure returns an error that is both ErrUnsure and why.
func unsure(why error) error { return fmt.Errorf("%w: %w", ErrUnsure, why) }
