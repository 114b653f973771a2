module timesync

go 1.25
