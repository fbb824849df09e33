package sqlite
import ("testing";"syscall";"time";"path/filepath";"net/url";"context";"slices";"annals/internal/index")
func cpu() time.Duration { var r syscall.Rusage; syscall.Getrusage(0,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
func BenchmarkZZ(b *testing.B){
 recs:=benchRecords(benchRows)
 var f,o,fw,ow,kn,knw,la,law []time.Duration
 for i:=0;i<15;i++{
  path:=filepath.Join(b.TempDir(),"annals.db")
  st,_:=Open(b.Context(),Config{Path:path}); st.Close()
  db,_:=pool(path,url.Values{"_txlock":{"immediate"},"_pragma":{"synchronous(normal)","cache_size(-16000)","foreign_keys(on)"}},1); db.Ping()
  c,w:=cpu(),time.Now()
  for at:=0;at<len(recs);at+=benchPage{
   tx,_:=db.BeginTx(context.Background(),nil)
   row,err:=tx.Prepare(`INSERT INTO sessions (upstream, id, parent_id, title, directory, project_id, created, updated, upstream_archived, archived_at, activity, system, missing_at, revision, digest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`); if err!=nil{b.Fatal(err)}
   doc,_:=tx.Prepare(`INSERT INTO session_metadata (upstream, id, revision, document) VALUES ($1, $2, $3, $4)`)
   dg:=make([]byte,16)
   for i:=range recs[at:at+benchPage]{ r:=&recs[at+i]
    if _,err:=row.Exec("local", r.ID, r.ParentID, r.Title, r.Directory, r.ProjectID, r.Created, r.Updated, 0, 0, r.Updated, 0, 0, 1, dg);err!=nil{b.Fatal(err)}
    if len(r.Metadata)>2 { if _,err:=doc.Exec("local",r.ID,1,[]byte(r.Metadata));err!=nil{b.Fatal(err)} } }
   tx.Commit()
  }
  f=append(f,cpu()-c); fw=append(fw,time.Since(w)); db.Close()
  st2:=benchStore(b,b.TempDir())
  c,w=cpu(),time.Now(); commitAll(b,st2,recs); o=append(o,cpu()-c); ow=append(ow,time.Since(w))
  st2.Known(b.Context(),"local")
  c,w=cpu(),time.Now(); st2.Known(b.Context(),"local"); kn=append(kn,cpu()-c); knw=append(knw,time.Since(w))
  q:=index.Query{Archived:index.ArchivedAll,Children:true,Missing:true}
  st2.List(b.Context(),q)
  c,w=cpu(),time.Now(); st2.List(b.Context(),q); la=append(la,cpu()-c); law=append(law,time.Since(w))
  st2.Close()
 }
 for n,x:=range map[string][]time.Duration{"floor cpu":f,"ours cpu":o,"floor wall":fw,"ours wall":ow,"known cpu":kn,"known wall":knw,"list cpu":la,"list wall":law}{ slices.Sort(x); b.Log(n,"min",x[0],"median",x[len(x)/2]) }
}
