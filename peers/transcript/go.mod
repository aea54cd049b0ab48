module github.com/rondo-streams/rondo/peers/transcript

go 1.27
