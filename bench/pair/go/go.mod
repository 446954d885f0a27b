module github.com/portalock/portalock-go/bench

go 1.19

require github.com/portalock/portalock-go v0.0.0

replace github.com/portalock/portalock-go => ../../../bindings/go
