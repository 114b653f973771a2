// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"

	"timesync/examples/channel/channelbench"
)

// connect is a channelbench.Connect: a server that answers each of its clients, on loopback.
func connect(ctx context.Context, r *channelbench.Run) error {
	api, err := loopback()
	if err != nil {
		return err
	}
	for _, clock := range channelbench.ClientClocks {
		client, server := r.Ends(clock)
		asks, err1 := open(ctx, api, client)
		answers, err2 := open(ctx, api, server)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := introduce(asks, answers); err != nil {
			return err
		}
	}
	return nil
}

// loopback is WebRTC without any network but that of this machine.
func loopback() (*webrtc.API, error) {
	var s webrtc.SettingEngine
	if err := Set(&s); err != nil {
		return nil, err
	}
	s.SetIncludeLoopbackCandidate(true)
	s.SetInterfaceFilter(func(name string) bool { return name == "lo" || name == "lo0" })
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	return webrtc.NewAPI(webrtc.WithSettingEngine(s)), nil
}

// open makes an end of a connection with two data channels, which sends and receives until ctx is
// done.
func open(
	ctx context.Context, api *webrtc.API, e *channelbench.End,
) (*webrtc.PeerConnection, error) {
	conn, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return nil, err
	}
	e.Go(func() error {
		<-ctx.Done()
		return conn.GracefulClose()
	})
	timed, err1 := create(conn, "timed", 0, Unreliable())
	bulk, err2 := create(conn, "bulk", 1, webrtc.DataChannelInit{})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	e.Peer = NewPeer(timed, e.Clock.Received)
	timed.OnMessage(func(m webrtc.DataChannelMessage) {
		if d, err := e.Peer.Take(m.Data); err == nil { // else the message is none of ours
			e.Judge(d)
		}
	})
	bulk.OnMessage(func(m webrtc.DataChannelMessage) { e.Write(m.Data) })
	timed.OnOpen(func() { e.Send(ctx) })
	bulk.OnOpen(func() {
		if e.Fill {
			e.Every(ctx, time.Millisecond, func() error { return fill(bulk) })
		}
	})
	return conn, nil
}

// create makes a channel. Both ends know the channels by their numbers, so neither has to announce
// them.
func create(
	conn *webrtc.PeerConnection, label string, id uint16, options webrtc.DataChannelInit,
) (*webrtc.DataChannel, error) {
	negotiated := true
	options.Negotiated = &negotiated
	options.ID = &id
	return conn.CreateDataChannel(label, &options)
}

// introduce does what a signalling server is for: it carries the descriptions.
func introduce(client, server *webrtc.PeerConnection) error {
	offer, err1 := client.CreateOffer(nil)
	err2 := tell(client, server, offer)
	answer, err3 := server.CreateAnswer(nil)
	return errors.Join(err1, err2, err3, tell(server, client, answer))
}

// tell carries a description, when it has the addresses: at once, as all are of this machine.
func tell(from, to *webrtc.PeerConnection, d webrtc.SessionDescription) error {
	gathered := webrtc.GatheringCompletePromise(from)
	if err := from.SetLocalDescription(d); err != nil {
		return err
	}
	<-gathered
	return to.SetRemoteDescription(*from.LocalDescription())
}

// Of a bulk transfer so many bytes wait: the usual figure.
const buffered, chunk = 1 << 20, 16 << 10

// fill fills the bulk channel with what may wait there.
func fill(c *webrtc.DataChannel) error {
	for c.BufferedAmount() < buffered {
		if err := c.Send(make([]byte, chunk)); err != nil {
			return err
		}
	}
	return nil
}
