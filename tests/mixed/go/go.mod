module github.com/portalock/portalock-go/mixed

go 1.19

require github.com/portalock/portalock-go v0.0.0

replace github.com/portalock/portalock-go => ../../../bindings/go
