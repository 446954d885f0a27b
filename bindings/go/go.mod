module github.com/portalock/portalock-go

go 1.19
