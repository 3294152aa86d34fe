module github.com/benthic-storage/benthic/go

go 1.24
