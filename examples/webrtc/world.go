// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"

	"timesync/examples/channel"
	"timesync/examples/internal/channelbench"
)

// connect is a channelbench.Connect: a server that answers each of its clients, on loopback.
func connect(ctx context.Context, r *channelbench.Run) error {
	api := loopback()
	for _, clock := range channelbench.ClientClocks {
		client, err1 := newEnd(ctx, api, r)
		server, err2 := newEnd(ctx, api, r)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := introduce(ctx, client.conn, server.conn); err != nil {
			return err
		}
		if err := errors.Join(client.wait(ctx), server.wait(ctx)); err != nil {
			return err
		}
		peer := NewPeer(client.timed, clock.Received)
		client.run(ctx, r, peer, r.Client(peer, clock), r.Up)
		peer = NewPeer(server.timed, channelbench.ServerClock.Received)
		server.run(ctx, r, peer, r.Server(peer, clock), r.Down)
	}
	return nil
}

// loopback is WebRTC without any network but that of this machine.
func loopback(options ...func(*webrtc.API)) *webrtc.API {
	var s webrtc.SettingEngine
	Set(&s)
	s.SetIncludeLoopbackCandidate(true)
	s.SetInterfaceFilter(func(name string) bool { return name == "lo" || name == "lo0" })
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	return webrtc.NewAPI(append(options, webrtc.WithSettingEngine(s))...)
}

// end is one end of a connection with two data channels.
type end struct {
	conn        *webrtc.PeerConnection
	timed, bulk *webrtc.DataChannel
	open        chan struct{} // gets one when a channel is open
}

// newEnd makes an end, to be closed when ctx is done. Both ends know the channels by their
// numbers, so neither has to announce them.
func newEnd(ctx context.Context, api *webrtc.API, r *channelbench.Run) (e *end, err error) {
	e = &end{open: make(chan struct{}, 2)}
	if e.conn, err = api.NewPeerConnection(webrtc.Configuration{}); err != nil {
		return nil, err
	}
	r.Go(func() error {
		<-ctx.Done()
		return e.conn.GracefulClose()
	})
	if e.timed, err = e.channel("timed", 0, Unreliable()); err != nil {
		return nil, err
	}
	e.bulk, err = e.channel("bulk", 1, webrtc.DataChannelInit{})
	return e, err
}

func (e *end) channel(label string, id uint16, options webrtc.DataChannelInit) (*webrtc.DataChannel, error) {
	negotiated := true
	options.Negotiated, options.ID = &negotiated, &id
	c, err := e.conn.CreateDataChannel(label, &options)
	if err == nil {
		c.OnOpen(func() { e.open <- struct{}{} })
	}
	return c, err
}

// introduce does what a signalling server is for: it carries the descriptions, addresses
// included.
func introduce(ctx context.Context, client, server *webrtc.PeerConnection) error {
	offer, err := client.CreateOffer(nil)
	if err != nil {
		return err
	}
	if err := describe(ctx, client, offer); err != nil {
		return err
	}
	if err := server.SetRemoteDescription(*client.LocalDescription()); err != nil {
		return err
	}
	answer, err := server.CreateAnswer(nil)
	if err != nil {
		return err
	}
	if err := describe(ctx, server, answer); err != nil {
		return err
	}
	return client.SetRemoteDescription(*server.LocalDescription())
}

// describe sets a local description and waits until it has the addresses.
func describe(ctx context.Context, conn *webrtc.PeerConnection, d webrtc.SessionDescription) error {
	gathered := webrtc.GatheringCompletePromise(conn)
	if err := conn.SetLocalDescription(d); err != nil {
		return err
	}
	select {
	case <-gathered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait returns when both channels are open.
func (e *end) wait(ctx context.Context) error {
	for range cap(e.open) {
		select {
		case <-e.open:
		case <-ctx.Done():
			return fmt.Errorf("no data channel: %w", context.Cause(ctx))
		}
	}
	return nil
}

// run sends and receives at one end until ctx is done.
func (e *end) run(ctx context.Context, r *channelbench.Run, p *channel.Peer, judged *channelbench.End, fill bool) {
	e.timed.OnMessage(func(m webrtc.DataChannelMessage) {
		if d, err := p.Take(m.Data); err == nil { // else the message is none of ours
			judged.Judge(d)
		}
	})
	e.bulk.OnMessage(func(m webrtc.DataChannelMessage) { r.Write(m.Data) })
	judged.Send(ctx)
	if fill {
		r.Every(ctx, time.Millisecond, e.fill)
	}
}

// Of a bulk transfer so many bytes wait: the usual figure.
const buffered, chunk = 1 << 20, 16 << 10

// fill fills the bulk channel with what may wait there.
func (e *end) fill() error {
	for e.bulk.BufferedAmount() < buffered {
		if err := e.bulk.Send(make([]byte, chunk)); err != nil {
			return err
		}
	}
	return nil
}
